// An HTTP server and its client, of Go's own library: `http serve ADDRESS` and `http ask ADDRESS`.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// At once, and how many bytes each sends.
const requests, bodyBytes = 100, 5000

// What the client gives up.
const abandoned = 10

func main() {
	address := os.Args[2]
	switch os.Args[1] {
	case "serve":
		serve(address)
	case "ask":
		ask("http://" + address)
	}
}

func serve(address string) {
	var givenUp atomic.Int32
	mux := http.NewServeMux()
	server := &http.Server{Addr: address, Handler: mux}
	mux.HandleFunc("/echo", func(to http.ResponseWriter, from *http.Request) {
		body, err := io.ReadAll(from.Body)
		if err != nil {
			http.Error(to, err.Error(), http.StatusBadRequest)
			return
		}
		to.Write(body)
	})
	// Never answers: its end is the client's.
	mux.HandleFunc("/never", func(_ http.ResponseWriter, from *http.Request) {
		<-from.Context().Done()
		givenUp.Add(1)
	})
	mux.HandleFunc("/given_up", func(to http.ResponseWriter, _ *http.Request) { fmt.Fprintln(to, givenUp.Load()) })
	mux.HandleFunc("/lines", func(to http.ResponseWriter, _ *http.Request) {
		for line := range 5 {
			fmt.Fprintln(to, "line", line)
			to.(http.Flusher).Flush()
			time.Sleep(5 * time.Millisecond)
		}
	})
	ended := make(chan error)
	mux.HandleFunc("/end", func(http.ResponseWriter, *http.Request) {
		go func() { ended <- server.Shutdown(context.Background()) }()
	})
	fmt.Println("served:", errors.Is(server.ListenAndServe(), http.ErrServerClosed), <-ended)
}

func ask(at string) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: requests}}
	for range 600 {
		if answer, err := client.Get(at + "/given_up"); err == nil {
			answer.Body.Close()
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	// The second time by connections that are there.
	for range 2 {
		fmt.Println("answers", atOnce(client, at))
	}
	fmt.Println("lines", lines(client, at))
	fmt.Println("given up", giveUp(client, at))
	impatient := &http.Client{Timeout: 50 * time.Millisecond}
	_, err := impatient.Get(at + "/never")
	var timeout net.Error
	fmt.Println("timeout", errors.As(err, &timeout) && timeout.Timeout())
	fmt.Println("seen", seen(client, at, abandoned+1))
	answer, err := client.Get(at + "/end")
	fmt.Println("end", answer != nil && answer.StatusCode == http.StatusOK, err)
}

// How many of the requests were answered as they are to be.
func atOnce(client *http.Client, at string) int32 {
	var right atomic.Int32
	var all sync.WaitGroup
	for number := range requests {
		all.Add(1)
		go func() {
			defer all.Done()
			body := bytes.Repeat([]byte{byte(number)}, bodyBytes)
			answer, err := client.Post(at+"/echo", "application/octet-stream", bytes.NewReader(body))
			if err != nil {
				fmt.Println(err)
				return
			}
			defer answer.Body.Close()
			if got, err := io.ReadAll(answer.Body); err == nil && bytes.Equal(got, body) {
				right.Add(1)
			}
		}()
	}
	all.Wait()
	return right.Load()
}

// Lines that come one after the other, in chunks.
func lines(client *http.Client, at string) int {
	answer, err := client.Get(at + "/lines")
	if err != nil {
		return -1
	}
	defer answer.Body.Close()
	count := 0
	for scanner := bufio.NewScanner(answer.Body); scanner.Scan(); count++ {
	}
	return count
}

// Requests that are cancelled while they wait.
func giveUp(client *http.Client, at string) int32 {
	var cancelled atomic.Int32
	var all sync.WaitGroup
	for range abandoned {
		all.Add(1)
		go func() {
			defer all.Done()
			within, cancel := context.WithCancel(context.Background())
			time.AfterFunc(time.Second, cancel)
			request, _ := http.NewRequestWithContext(within, "GET", at+"/never", nil)
			if _, err := client.Do(request); errors.Is(err, context.Canceled) {
				cancelled.Add(1)
			}
		}()
	}
	all.Wait()
	return cancelled.Load()
}

// Until the server has seen as many ends.
func seen(client *http.Client, at string, wanted int) bool {
	for range 600 {
		if answer, err := client.Get(at + "/given_up"); err == nil {
			var count int
			fmt.Fscan(answer.Body, &count)
			answer.Body.Close()
			if count == wanted {
				return true
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	return false
}

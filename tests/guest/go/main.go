// What programs in Go ask of a kernel: threads and timers of their runtime, signals for bad accesses, children, sockets.
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

func main() {
	switch os.Args[1] {
	case "numbers":
		count, _ := strconv.Atoi(os.Args[2])
		for i := 1; i <= count; i++ {
			fmt.Println(i)
		}
	case "square":
		square(os.Stdin, os.Stdout)
	case "sum":
		fmt.Println(sum(os.Stdin))
	case "all":
		goroutines()
		recovered()
		timers()
		child(os.Args[2])
		sockets("/tmp/" + runtime.GOARCH)
		fmt.Println(runtime.GOARCH, "has done all")
	}
}

// Each line's number is squared by another goroutine; their order is kept.
func square(in io.Reader, out io.Writer) {
	results := make(chan chan int, 8)
	go func() {
		for lines := bufio.NewScanner(in); lines.Scan(); {
			number, _ := strconv.Atoi(lines.Text())
			result := make(chan int)
			results <- result
			go func() { result <- number * number }()
		}
		close(results)
	}()
	for result := range results {
		fmt.Fprintln(out, <-result)
	}
}

func sum(in io.Reader) (total int) {
	for lines := bufio.NewScanner(in); lines.Scan(); {
		number, _ := strconv.Atoi(lines.Text())
		total += number
	}
	return
}

func goroutines() {
	var group sync.WaitGroup
	var guard sync.Mutex
	counts := map[int]int{}
	for worker := 0; worker < 50; worker++ {
		group.Add(1)
		go func(worker int) {
			defer group.Done()
			garbage := [][]byte{}
			for round := 0; round < 100; round++ {
				garbage = append(garbage, make([]byte, 1000))
				guard.Lock()
				counts[round] += len(garbage[round]) / 1000
				guard.Unlock()
			}
		}(worker)
	}
	group.Wait()
	runtime.GC()
	total := 0
	for _, count := range counts {
		total += count
	}
	fmt.Println("counted", total)
}

func recovered() {
	defer func() { fmt.Println("recovered:", recover()) }()
	var nowhere *struct{ far [4]int }
	nowhere.far[2] = 1
}

func timers() {
	start, ticks := time.Now(), 0
	ticker := time.NewTicker(5 * time.Millisecond)
	deadline, cancel := context.WithTimeout(context.Background(), 40*time.Millisecond)
	defer cancel()
	for deadline.Err() == nil || ticks == 0 {
		select {
		case <-ticker.C:
			ticks++
		case <-deadline.Done():
		}
	}
	fmt.Println("ticks", ticks > 0, "late", time.Since(start) >= 40*time.Millisecond)
}

func child(program string) {
	command := exec.Command(program, "square")
	command.Stdin = strings.NewReader("1\n2\n3\n")
	output, err := command.Output()
	fmt.Printf("child %q %v\n", output, err)
	ended := exec.Command("/bin/sh", "-c", "exit 3").Run()
	fmt.Println("child", ended)
}

func sockets(path string) {
	listener, err := net.Listen("unix", path)
	if err != nil {
		fmt.Println(err)
		return
	}
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer connection.Close()
				square(connection, connection)
			}()
		}
	}()
	var group sync.WaitGroup
	answers := make([]string, 5)
	for client := range answers {
		group.Add(1)
		go func(client int) {
			defer group.Done()
			connection, err := net.Dial("unix", path)
			if err != nil {
				answers[client] = err.Error()
				return
			}
			defer connection.Close()
			fmt.Fprintln(connection, client)
			answer, _ := bufio.NewReader(connection).ReadString('\n')
			answers[client] = strings.TrimSpace(answer)
		}(client)
	}
	group.Wait()
	listener.Close()
	fmt.Println("answers", answers)
}

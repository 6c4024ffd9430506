"""What a Python program does on a network: servers and clients of its library, and processes that it starts."""

import asyncio
import functools
import http.server
import multiprocessing
import os
import platform
import socket
import subprocess
import sys
import threading
import urllib.request


def web():
    """A server of files, asked by this program and by one of another instruction set."""
    os.makedirs("/tmp/files", exist_ok=True)
    with open("/tmp/files/numbers", "w") as file:
        file.write("\n".join(map(str, range(20000))))
    handler = functools.partial(Quiet, directory="/tmp/files")
    with http.server.ThreadingHTTPServer(("", 8000), handler) as server:
        threading.Thread(target=server.serve_forever).start()
        body = urllib.request.urlopen("http://localhost:8000/numbers").read()
        curl = subprocess.run(["/programs/riscv64/curl", "-s", "http://127.0.0.1:8000/numbers"], capture_output=True)
        print("web", len(body), body == curl.stdout)
        server.shutdown()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


async def echo():
    """Connections of one event loop with itself."""
    async def serve(reader, writer):
        while line := await reader.readline():
            writer.write(line)
            await writer.drain()
        writer.close()

    async def ask(port, number):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for turn in range(3):
            writer.write(b"%d %d\n" % (number, turn))
            assert await reader.readline() == b"%d %d\n" % (number, turn)
        writer.close()
        await writer.wait_closed()
        return number

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    print("asyncio", sum(await asyncio.gather(*(ask(port, number) for number in range(20)))))
    child = await asyncio.create_subprocess_exec("/programs/arm64/bash", "-c", "read x; echo $x ${MACHTYPE%%-*}", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    print("child", (await child.communicate(b"hello\n"))[0].decode().strip())
    server.close()


def square(number):
    return number * number


def workers():
    """Processes of a fork server, and what they share."""
    context = multiprocessing.get_context("forkserver")
    with context.Pool(2) as pool:
        print("forkserver", sum(pool.map(square, range(50))))
    queue, lock = context.Queue(), context.Lock()
    process = context.Process(target=put, args=(queue, lock))
    process.start()
    print("queue", queue.get(timeout=60), process.join(), process.exitcode)


def put(queue, lock):
    with lock:
        queue.put(os.getppid() != os.getpid())


def options():
    """What programs ask of sockets."""
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as server:
        with socket.create_connection(("127.0.0.1", server.getsockname()[1])) as client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            peer, address = server.accept()
            info = peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
            print("dual", address[0], info[0], client.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE))
            a, b = socket.socketpair()
            socket.send_fds(a, [b"x"], [peer.fileno()])
            _, (again,), _, _ = socket.recv_fds(b, 1, 1)
            client.sendall(b"by another descriptor")
            print("passed", socket.socket(fileno=again).recv(100).decode())
            with open("/tmp/files/numbers", "rb") as file:
                threading.Thread(target=lambda: (client.sendfile(file), client.shutdown(socket.SHUT_WR))).start()
                total = 0
                while part := peer.recv(65536):
                    total += len(part)
                print("sendfile", total)
    print("names", socket.gethostname(), sorted({a[4][0] for a in socket.getaddrinfo("localhost", 80)}), [n for _, n in socket.if_nameindex()])


if __name__ == "__main__":
    print(platform.python_implementation(), sys.version_info[:2], platform.machine())
    web()
    asyncio.run(echo())
    workers()
    options()

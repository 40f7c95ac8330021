"""What Python's libraries do with sockets."""
import array
import asyncio
import errno
import hashlib
import multiprocessing
import multiprocessing.connection
import os
import select
import selectors
import signal
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
import time

DATA = bytes(at * 31 % 251 for at in range(3_000_000))


def digest(data):
    return f"{len(data)} {hashlib.sha256(data).hexdigest()[:16]}"


def receive_all(sock):
    parts = []
    while part := sock.recv(70_000):
        parts.append(part)
    return b"".join(parts)


def pair():
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        return client, server.accept()[0]


def blocking():
    client, server = pair()
    thread = threading.Thread(target=lambda: (client.sendall(DATA), client.shutdown(socket.SHUT_WR)))
    thread.start()
    print("blocking", digest(receive_all(server)))
    thread.join()
    server.sendall(b"reply")
    server.close()
    print("half closed", receive_all(client))
    client.close()


def errors():
    for family, address in ((socket.AF_INET, ("127.0.0.1", 1)), (socket.AF_INET6, ("::1", 1))):
        with socket.socket(family) as sock:
            print("refused", errno.errorcode[sock.connect_ex(address)])
    client, server = pair()
    client.setblocking(False)
    try:
        client.recv(1)
    except BlockingIOError as error:
        print("empty", errno.errorcode[error.errno])
    client.settimeout(0.05)
    try:
        client.recv(1)
    except TimeoutError:
        print("timeout")
    server.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    server.close()
    client.settimeout(10)
    try:
        client.recv(1)
    except ConnectionResetError as error:
        print("reset", errno.errorcode[error.errno])
    client.close()
    try:
        client.recv(1)
    except OSError as error:
        print("closed", errno.errorcode[error.errno])


def options():
    client, server = pair()
    print("peek", (client.sendall(b"abcdef"), server.recv(3, socket.MSG_PEEK), server.recv(6, socket.MSG_WAITALL))[1:])
    print("vector", client.sendmsg([b"ab", b"", b"cde"]), server.recvmsg(10)[0])
    client.send(b"!", socket.MSG_OOB)
    client.send(b"after")
    time.sleep(0.05)
    print("urgent", server.recv(10, socket.MSG_OOB), server.recv(10))
    print("names", client.getpeername() == server.getsockname(), server.getpeername() == client.getsockname())
    duplicate = client.dup()
    client.close()
    duplicate.sendall(b"from the duplicate")
    print("duplicate", server.recv(100))
    duplicate.close()
    print("end", server.recv(100))


def readiness():
    for name in ("poll", "epoll", "select"):
        client, server = pair()
        selector = {"poll": selectors.PollSelector, "epoll": selectors.EpollSelector, "select": selectors.SelectSelector}[name]()
        selector.register(server, selectors.EVENT_READ)
        print(name, "idle", len(selector.select(0)))
        client.sendall(b"x")
        print(name, "readable", [key.fileobj is server for key, _ in selector.select(5)])
        server.recv(1)
        print(name, "idle again", len(selector.select(0)))
        client.close()
        print(name, "end", [mask for _, mask in selector.select(5)], server.recv(1))
        selector.close()
    client, server = pair()
    edge = select.epoll()
    edge.register(server, select.EPOLLIN | select.EPOLLET)
    client.sendall(b"xy")
    print("edge", edge.poll(5)[0][1], edge.poll(0), server.recv(1), edge.poll(0))
    outer = select.epoll()
    outer.register(edge.fileno(), select.EPOLLIN)
    client.sendall(b"z")
    print("nested", len(outer.poll(5)), len(edge.poll(0)))


async def streams():
    async def serve(reader, writer):
        while line := await reader.readline():
            writer.write(line.upper())
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]

    async def client(number):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        lines = []
        for count in range(50):
            writer.write(b"line %d of %d\n" % (count, number))
            lines.append(await reader.readline())
        writer.write_eof()
        lines.append(await reader.read())
        writer.close()
        return digest(b"".join(lines))

    print("asyncio", await asyncio.gather(*(client(number) for number in range(20))))
    big_reader, big_writer = await asyncio.open_connection("127.0.0.1", port)
    big_writer.write(b"a" * 60_000 + b"\n")
    print("asyncio long", digest(await big_reader.readexactly(60_001)))
    big_writer.close()
    try:
        await asyncio.open_connection("127.0.0.1", 1)
    except ConnectionRefusedError as error:
        print("asyncio refused", errno.errorcode[error.errno])
    server.close()


def worker(address, number):
    with multiprocessing.connection.Client(address) as connection:
        connection.send((number, DATA[: number * 1000]))
        connection.recv()


def processes():
    with multiprocessing.connection.Listener(("127.0.0.1", 0)) as listener:
        workers = [multiprocessing.Process(target=worker, args=(listener.address, n)) for n in range(4)]
        for process in workers:
            process.start()
        said = []
        for _ in workers:
            with listener.accept() as connection:
                number, data = connection.recv()
                said.append((number, digest(data)))
                connection.send("thanks")
        for process in workers:
            process.join()
    print("multiprocessing", sorted(said), [process.exitcode for process in workers])
    with multiprocessing.Pool(3) as pool:
        print("pool", pool.map(abs, range(-50, 0))[:3])


def children():
    client, server = pair()
    with subprocess.Popen(["/bin/cat"], stdin=server, stdout=server) as child:
        server.close()
        client.sendall(b"through a child\n")
        client.shutdown(socket.SHUT_WR)
        print("child", receive_all(client))
    print("child ended", child.returncode)
    client, server = pair()
    pid = os.fork()
    if pid == 0:
        client.close()
        server.sendall(b"from the child: " + server.recv(100))
        os._exit(0)
    server.close()
    client.sendall(b"parent")
    print("fork", receive_all(client), os.waitpid(pid, 0)[1])
    client, server = pair()
    left, right = socket.socketpair()
    socket.send_fds(left, [b"x"], [server.fileno()])
    server.close()
    passed = socket.socket(fileno=socket.recv_fds(right, 1, 1)[1][0])
    client.sendall(b"to the passed one")
    print("passed", passed.recv(100))
    client, server = pair()
    code = "import socket,sys; s=socket.socket(fileno=int(sys.argv[1])); s.sendall(s.recv(99)[::-1])"
    with subprocess.Popen([sys.executable, "-c", code, str(server.fileno())], pass_fds=[server.fileno()]):
        server.close()
        client.sendall(b"abc")
        print("inherited", receive_all(client))


def servers():
    class Handler(socketserver.StreamRequestHandler):
        def handle(self):
            for line in self.rfile:
                self.wfile.write(line[::-1].strip() + b"\n")

    for kind in (socketserver.ThreadingTCPServer, socketserver.ForkingTCPServer):
        with kind(("127.0.0.1", 0), Handler) as server:
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            with socket.create_connection(server.server_address) as sock, sock.makefile("rwb") as file:
                file.write(b"stressed\ndesserts\n")
                file.flush()
                # A forked handler holds the client's end too, so that closing it would end nothing.
                sock.shutdown(socket.SHUT_WR)
                print(kind.__name__, file.readline(), file.readline(), file.readline())
            server.shutdown()
            thread.join()


def files():
    client, server = pair()
    with tempfile.TemporaryFile() as file:
        file.write(DATA)
        file.flush()
        thread = threading.Thread(target=lambda: (client.sendfile(file), client.close()))
        file.seek(0)
        thread.start()
        print("sendfile", digest(receive_all(server)))
        thread.join()
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.bind(("127.0.0.1", 0))
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.sendto(b"datagram", receiver.getsockname())
    print("datagram", receiver.recvfrom(100)[0])


def signals():
    client, server = pair()
    seen = []
    signal.signal(signal.SIGALRM, lambda number, frame: (seen.append(number), client.sendall(b"late")))
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    print("signal", server.recv(10), seen)


def check():
    blocking()
    errors()
    options()
    readiness()
    asyncio.run(streams())
    processes()
    children()
    servers()
    files()
    signals()
    print("done")


def load(seconds):
    client, server = pair()
    for sock in (client, server):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    pid = os.fork()
    if pid == 0:
        client.close()
        while data := server.recv(64):
            server.sendall(data)
        os._exit(0)
    server.close()
    start, count = time.monotonic(), 0
    while time.monotonic() < start + seconds:
        for _ in range(50):
            client.sendall(b"x" * 32)
            client.recv(64)
        count += 50
    print("rate", count / (time.monotonic() - start))
    client.close()
    os.waitpid(pid, 0)


if __name__ == "__main__":
    if sys.argv[1] == "check":
        check()
    else:
        load(int(sys.argv[2]))

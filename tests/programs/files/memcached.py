"""Clients of memcached, in its text protocol."""
import hashlib
import socket
import sys
import threading
import time

CLIENTS = 8
port, what = int(sys.argv[1]), sys.argv[2]


class Client:
    def __init__(self):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb")

    def store(self, key, value):
        self.socket.sendall(b"set %s 0 0 %d\r\n%s\r\n" % (key, len(value), value))
        return self.file.readline().strip().decode()

    def fetch(self, key):
        self.socket.sendall(b"get %s\r\n" % key)
        line = self.file.readline()
        if line == b"END\r\n":
            return None
        value = self.file.read(int(line.split()[3]))
        assert self.file.read(7) == b"\r\nEND\r\n"
        return value


def check():
    client = Client()
    for size in (0, 1, 100, 2000, 70_000, 1_000_000, 2_000_000):
        value = bytes(at * 13 % 256 for at in range(size))
        key = b"key%d" % size
        print(size, client.store(key, value))
        if size < 1_048_576:
            back = client.fetch(key)
            print(len(back), hashlib.sha256(back).hexdigest())
        else:
            # Refused, and the rest of it is swallowed or not: another connection.
            client = Client()
    print(client.fetch(b"absent"))
    print("done")


def load(seconds):
    until = time.monotonic() + seconds
    counts = [0] * CLIENTS

    def run(number):
        client = Client()
        client.store(b"load%d" % number, b"x" * 100)
        while time.monotonic() < until:
            for _ in range(20):
                client.fetch(b"load%d" % number)
            counts[number] += 20

    threads = [threading.Thread(target=run, args=(number,)) for number in range(CLIENTS)]
    start = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print("rate", sum(counts) / (time.monotonic() - start))


if what == "check":
    check()
else:
    load(int(sys.argv[3]))

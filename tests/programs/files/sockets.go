// What Go does with sockets: without the C library.
package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

func echo(listener net.Listener) {
	for {
		connection, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			io.Copy(connection, connection)
			connection.Close()
		}()
	}
}

func check(address string) {
	data := strings.Repeat("0123456789abcdef", 100000)
	for number := 0; number < 5; number++ {
		connection, err := net.Dial("tcp", address)
		if err != nil {
			panic(err)
		}
		go func() {
			io.WriteString(connection, data[number:])
			connection.(*net.TCPConn).CloseWrite()
		}()
		back, err := io.ReadAll(connection)
		fmt.Println(len(back), fmt.Sprintf("%x", sha256.Sum256(back))[:16], err)
	}
	_, err := net.Dial("tcp", "127.0.0.1:1")
	fmt.Println(strings.Contains(err.Error(), "refused"))
	listener, _ := net.Listen("tcp", "127.0.0.1:0")
	go http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.URL.Path) }))
	for number := 0; number < 20; number++ {
		answer, err := http.Get(fmt.Sprintf("http://%s/%d", listener.Addr(), number))
		if err != nil {
			panic(err)
		}
		body, _ := io.ReadAll(answer.Body)
		fmt.Println(string(body))
	}
	fmt.Println("done")
}

func load(address string, seconds int) {
	connection, err := net.Dial("tcp", address)
	if err != nil {
		panic(err)
	}
	message := make([]byte, 32)
	start, count := time.Now(), 0
	for time.Since(start) < time.Duration(seconds)*time.Second {
		connection.Write(message)
		io.ReadFull(connection, message)
		count++
	}
	fmt.Println("rate", float64(count)/time.Since(start).Seconds())
}

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go echo(listener)
	if os.Args[1] == "check" {
		check(listener.Addr().String())
		return
	}
	seconds, _ := strconv.Atoi(os.Args[2])
	load(listener.Addr().String(), seconds)
}

package main

import (
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"
)

// ask sends each text (quoted as in Go) on a connection of its own and prints
// what came back. at is how many there are at the same time.
func ask(at int, network, to string, texts []string) {
	var all sync.WaitGroup
	places := make(chan struct{}, at)
	out := make([]string, len(texts))
	for i, text := range texts {
		places <- struct{}{}
		all.Go(func() {
			out[i] = exchange(network, to, text)
			<-places
		})
	}
	all.Wait()
	for _, o := range out {
		fmt.Println("answer:", o)
	}
}

func exchange(network, to, quoted string) string {
	text, err := strconv.Unquote(quoted)
	if err != nil {
		return "unreadable: " + quoted
	}
	c, err := net.DialTimeout(network, to, 2*time.Second)
	if err != nil {
		return "no connection: " + word(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := io.WriteString(c, text); err != nil {
		return "not sent: " + word(err)
	}
	b, err := io.ReadAll(io.LimitReader(c, 16<<20))
	end := ""
	if err != nil {
		end = " " + word(err)
	}
	return fmt.Sprintf("%d bytes%s %.600q", len(b), end, b)
}

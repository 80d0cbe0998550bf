// The event loop of Go: as loop.c, by Stream.Next and by a callback.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"kvrt.dev/kvrt"
)

var events, tokens uint64
var size int

func see(e kvrt.Event) error {
	events++
	tokens += uint64(e.Token)
	size += len(e.Text)
	return nil
}

func byNext(session *kvrt.Session, options *kvrt.GenerateOptions) {
	stream := must(session.Stream(context.Background(), options))
	defer stream.Close()
	for {
		event, err := stream.Next()
		if err == io.EOF {
			return
		}
		see(must(event, err))
	}
}

func main() {
	runtime := must(kvrt.OpenRuntime(&kvrt.RuntimeOptions{Threads: 1}))
	model := must(runtime.OpenModel(context.Background(), os.Args[1], nil, nil))
	session := must(model.OpenSession(nil))
	must(0, session.Append([]int32{5, 6, 7, 8}))
	for {
		var way string
		var count uint32
		if n, _ := fmt.Scan(&way, &count); n != 2 {
			break
		}
		options := &kvrt.GenerateOptions{MaxTokens: count, IgnoreEOS: true}
		must(0, session.Truncate(4))
		events, tokens = 0, 0
		begin := time.Now()
		if way == "next" {
			byNext(session, options)
		} else {
			must(session.Generate(context.Background(), options, see))
		}
		fmt.Println(time.Since(begin).Nanoseconds(), events, tokens)
	}
	session.Close()
	model.Close()
	runtime.Close()
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

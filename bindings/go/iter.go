//go:build go1.23

package kvrt

import (
	"context"
	"io"
	"iter"
)

// All generates, and gives the events up to DONE: for event, err := range session.All(ctx, &options) { ... }. Leaving the loop ends the generation. A
// failure, and CANCELLED where the context ended it, comes last, with an empty event.
func (s *Session) All(ctx context.Context, options *GenerateOptions) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		stream, err := s.Stream(ctx, options)
		if err != nil {
			yield(Event{}, err)
			return
		}
		defer stream.Close()
		for {
			event, err := stream.Next()
			if err == io.EOF || !yield(event, err) || err != nil {
				return
			}
		}
	}
}

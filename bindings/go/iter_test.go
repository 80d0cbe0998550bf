//go:build go1.23

package kvrt

import (
	"context"
	"testing"
)

func TestAll(t *testing.T) {
	noLeaks(t)
	r := newRig(t)
	s := r.open(prompt...)
	var got []int32
	for e, err := range s.All(background, &GenerateOptions{MaxTokens: 6, IgnoreEOS: true}) {
		must(t, err)
		if e.Type == EventToken {
			got = append(got, e.Token)
		}
	}
	equal(t, got, r.answer(r.open(prompt...), 6))

	for e, err := range s.All(background, endless) { // leaving the loop ends the generation
		must(t, err)
		if e.Type == EventToken {
			break
		}
	}
	info, err := s.Info()
	must(t, err)
	equal(t, info.State, StateIdle)

	ctx, cancel := context.WithCancel(background)
	defer cancel()
	for e, failure := range s.All(ctx, endless) {
		if err = failure; e.Type == EventToken {
			cancel()
		}
	}
	fails(t, err, StatusCancelled, context.Canceled)
	for _, failure := range s.All(ctx, endless) {
		err = failure
	}
	fails(t, err, context.Canceled)
}

package kvrt

import (
	"io"
	"strings"
	"testing"
)

// Answers of two tokens repeat what lookup finds.
var twoTokens = []TokenValue{{5, 50}, {6, 50}}
var again = []int32{5, 6, 7, 8, 5, 6, 7, 8, 5, 6, 7, 8}

// spoken gives the tokens of a generation, and its report.
func (r *rig) spoken(options GenerateOptions) ([]int32, Report) {
	r.t.Helper()
	var out []int32
	report, err := r.open(again...).Generate(background, &options, func(e Event) error {
		if e.Type == EventToken {
			out = append(out, e.Token)
		}
		return nil
	})
	must(r.t, err)
	return out, report
}

func (r *rig) draft() *Model {
	r.t.Helper()
	m, err := r.runtime.OpenModel(background, modelPath, nil, nil)
	must(r.t, err)
	r.t.Cleanup(func() { m.Close() })
	return m
}

func TestSpeculation(t *testing.T) {
	r := newRig(t)
	draft := r.draft()
	var drafted, accepted uint64
	for _, plain := range []GenerateOptions{{MaxTokens: 24, IgnoreEOS: true, LogitBias: twoTokens},
		{MaxTokens: 24, IgnoreEOS: true, LogitBias: twoTokens, Temperature: 1.2, TopK: 40, Seed: 7, RepetitionPenalty: 1.1}} {
		want, report := r.spoken(plain)
		equal(t, []uint64{report.Drafted, report.Accepted}, []uint64{0, 0})
		text, err := r.model.Detokenize(want, 0)
		must(t, err)
		for _, change := range []func(o *GenerateOptions){
			func(o *GenerateOptions) { o.Lookup = true },
			func(o *GenerateOptions) { o.Draft = draft },
			func(o *GenerateOptions) { o.Prediction = strings.ToValidUTF8(text, "?") },
			func(o *GenerateOptions) { o.Draft, o.Lookup = draft, true },
		} {
			options := plain
			options.DraftTokensMax, options.DraftTokensMin = 6, 3
			change(&options)
			got, report := r.spoken(options)
			equal(t, got, want)
			check(t, report.Drafted > 0 && report.Accepted <= report.Drafted, options, report)
			// It is the same model.
			check(t, report.Accepted > 0 || options.Draft == nil || options.Temperature > 0, options, report)
			drafted, accepted = drafted+report.Drafted, accepted+report.Accepted
		}
	}
	metrics, err := r.model.Metrics()
	must(t, err)
	equal(t, []uint64{metrics.Drafted, metrics.Accepted}, []uint64{drafted, accepted})
}

func TestDraftIsKeptUntilDone(t *testing.T) {
	r := newRig(t)
	want, _ := r.spoken(GenerateOptions{MaxTokens: 20, IgnoreEOS: true})
	draft := r.draft()
	options := GenerateOptions{MaxTokens: 20, IgnoreEOS: true, Draft: draft, DraftTokensMin: 3}
	s := r.open(again...)
	stream, err := s.Stream(background, &options)
	must(t, err)
	defer stream.Close()
	must(t, draft.Close())
	var got []int32
	for {
		e, err := stream.Next()
		if err == io.EOF {
			break
		}
		must(t, err)
		if e.Type == EventToken {
			got = append(got, e.Token)
		}
	}
	equal(t, got, want)
	check(t, stream.Report().Accepted > 0, stream.Report())
	fails(t, s.Begin(&options), StatusInvalid) // it is closed
	fails(t, s.Begin(&GenerateOptions{Draft: &Model{}}), StatusInvalid)
}

func TestSpeculationRefused(t *testing.T) {
	r, other := newRig(t), newRig(t)
	s := r.open(prompt...)
	for _, bad := range []GenerateOptions{{Draft: r.model}, {Draft: other.model}, {Lookup: true, DraftTokensMax: 33},
		{Lookup: true, DraftTokensMax: 2, DraftTokensMin: 3}} {
		bad := bad
		fails(t, s.Begin(&bad), StatusInvalid)
	}
}

package kvrt

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"strings"
	"testing"
)

func TestOpen(t *testing.T) {
	r := newRig(t)
	info, err := r.model.Info()
	must(t, err)
	check(t, info.HasWeights && info.HasTemplate, info)
	equal(t, info.Architecture, "llama")
	props, err := r.runtime.Info()
	must(t, err)
	equal(t, []any{props.Device, props.Threads, props.Devices}, []any{"cpu", uint32(1), ""})
	must(t, r.runtime.SetThreads(2))
	props, err = r.runtime.Info()
	must(t, err)
	equal(t, props.Threads, uint32(2))

	fails(t, r.runtime.SetThreads(300), StatusLimit)
	_, err = r.runtime.OpenModel(background, "nowhere.gguf", nil, nil)
	fails(t, err, StatusNotFound)
	check(t, strings.Contains(err.Error(), "nowhere.gguf"), err)
	_, err = OpenRuntime(&RuntimeOptions{Device: DeviceCUDA, CUDALibrary: r.dir + "/none.so"})
	fails(t, err, StatusUnsupported)
	check(t, strings.Contains(err.Error(), r.dir+"/none.so"), err)
	_, err = OpenRuntime(&RuntimeOptions{ISA: 99})
	fails(t, err, StatusInvalid)
	_, err = r.runtime.OpenStore(r.dir+"/none", &StoreOptions{MustExist: true})
	fails(t, err, StatusNotFound)
}

func TestModelByDescriptor(t *testing.T) {
	r := newRig(t)
	data, err := os.ReadFile(modelPath)
	must(t, err)
	must(t, os.WriteFile(r.dir+"/holder", append(make([]byte, 4096), append(data, 1, 2, 3)...), 0o600))
	file, err := os.Open(r.dir + "/holder")
	must(t, err)
	defer file.Close()
	last := Event{}
	m, err := r.runtime.OpenModel(background, "", &ModelOptions{FromFD: true, FD: int32(file.Fd()), FDOffset: 4096, FDSize: uint64(len(data))}, func(e Event) error {
		last = e
		return unequal(e.Type, EventProgress)
	})
	must(t, err)
	defer m.Close()
	check(t, last.Total > 0 && last.Done == last.Total, last)
	info, err := m.Info()
	must(t, err)
	equal(t, info.FileBytes, uint64(len(data)))
}

func TestModelText(t *testing.T) {
	r := newRig(t)
	for _, s := range []string{"Hello there, Å 中", strings.Repeat("word ", 500), "", "a\x00b\xff"} {
		tokens, err := r.model.Tokenize(s, 0)
		must(t, err)
		back, err := r.model.Detokenize(tokens, 0)
		must(t, err)
		if s != "a\x00b\xff" { // a vocabulary may lack the NUL
			equal(t, back, s)
		}
	}
	with, err := r.model.Tokenize("Hello", TextBOS)
	must(t, err)
	without, err := r.model.Tokenize("Hello", 0)
	must(t, err)
	equal(t, with[1:], without)

	messages := []Message{{"user", "Hi \U0001f600"}}
	text, err := r.model.ApplyTemplate(messages, nil)
	must(t, err)
	check(t, strings.Contains(text, "Hi \U0001f600"), text)
	text, err = ApplyTemplate(messages, &TemplateOptions{Source: "{{ tools | length }}{{ documents[0].title }}{{ x }}{{ messages[0].content }}",
		Tools: []any{map[string]any{"name": "f"}}, Documents: json.RawMessage(`[{"title": "T"}]`), Variables: map[string]any{"x": false}})
	must(t, err)
	equal(t, text, "1TFalseHi \U0001f600")
	_, err = ApplyTemplate(messages, nil)
	fails(t, err, StatusInvalid)
	_, err = ApplyTemplate(func() {}, nil)
	fails(t, err, StatusInvalid)
	_, err = r.model.ApplyTemplate(messages, &TemplateOptions{Source: "{{"})
	fails(t, err, StatusInvalid, DetailTemplateError)
}

func TestPlanCacheInspectMetrics(t *testing.T) {
	r := newRig(t)
	info, err := r.model.Info()
	must(t, err)
	plan, err := r.runtime.Plan(modelPath, &PlanOptions{Sessions: 3, SessionTokens: 100})
	must(t, err)
	equal(t, []any{plan.WeightBytes, plan.Units, plan.Fits}, []any{info.WeightBytes, uint64(12), true})
	plan, err = r.runtime.Plan("", &PlanOptions{Layers: 2, KVHeads: 3, HeadDim: 8, SessionTokens: 32, KVFormat: KVINT8, KVFormatV: KVF16})
	must(t, err)
	equal(t, plan.KVBytesPerToken, uint64(2*3*(8+2+16)))
	_, err = r.runtime.Cache(nil)
	fails(t, err, StatusNotFound)
	options := &ModelOptions{CacheDir: r.dir + "/weights", CacheBytesMax: 1000}
	cache, err := r.runtime.Cache(options)
	must(t, err)
	equal(t, []any{cache.Files, cache.BytesMax}, []any{uint32(0), uint64(1000)})
	check(t, strings.HasSuffix(cache.Directory, "/weights"), cache.Directory)
	found, err := r.runtime.Inspect(modelPath, InspectAll)
	must(t, err)
	check(t, json.Valid(found) && len(found) > 1000, string(found))
	text, err := r.model.MetricsText("mine")
	must(t, err)
	check(t, strings.Contains(text, `model="mine"`), text)
	r.answer(r.open(prompt...), 3)
	metrics, err := r.model.Metrics()
	must(t, err)
	equal(t, []any{metrics.Generations, metrics.Generated, metrics.PromptTokens}, []any{uint64(1), uint64(3), uint64(4)})
}

func TestStream(t *testing.T) {
	noLeaks(t)
	r := newRig(t)
	s := r.open(prompt...)
	stream, err := s.Stream(background, &GenerateOptions{MaxTokens: 12, IgnoreEOS: true, TopLogprobs: 3, EmitLogits: true})
	must(t, err)
	defer stream.Close()
	var tokens []int32
	text := ""
	var last Event
	var row []float32
	for {
		e, err := stream.Next()
		if err == io.EOF {
			break
		}
		must(t, err)
		text += e.Text
		switch last = e; e.Type {
		case EventLogits:
			row = e.Logits
		case EventToken:
			tokens = append(tokens, e.Token)
			equal(t, []any{e.Position, best(row), e.Top[0].Token, len(e.Top)}, []any{uint64(3 + len(tokens)), e.Token, e.Token, 3})
			check(t, math.Abs(float64(e.Top[0].Value)-e.Logprob) < 1e-4, e)
		}
	}
	equal(t, []any{last.Type, last.Reason, len(tokens)}, []any{EventDone, ReasonMaxTokens, 12})
	equal(t, *last.Report, stream.Report())
	equal(t, []any{last.Report.Generated, last.Report.PromptTokens}, []any{uint64(12), uint64(4)})
	equal(t, tokensOf(t, s), append(append([]int32{}, prompt...), tokens...))
	whole, err := s.Text(4, End, 0)
	must(t, err)
	equal(t, text, strings.ToValidUTF8(whole, "\ufffd")) // as events have it
	_, err = stream.Next()
	equal(t, err, io.EOF)
	equal(t, r.answer(r.open(prompt...), 12), tokens) // the callback's
}

func best(row []float32) int32 {
	top := 0
	for i, v := range row {
		if v > row[top] {
			top = i
		}
	}
	return int32(top)
}

func TestOptionsArrive(t *testing.T) {
	r := newRig(t)
	first := r.answer(r.open(prompt...), 8)
	run := func(options GenerateOptions) (out []int32, report Report) {
		t.Helper()
		options.IgnoreEOS = true
		report, err := r.open(prompt...).Generate(background, &options, func(e Event) error {
			if e.Type == EventToken {
				out = append(out, e.Token)
			}
			return nil
		})
		must(t, err)
		return out, report
	}
	banned, _ := run(GenerateOptions{MaxTokens: 8, LogitBias: []TokenValue{{first[0], float32(math.Inf(-1))}}})
	check(t, banned[0] != first[0], banned)
	hot := GenerateOptions{MaxTokens: 20, Temperature: 1.5, TopK: 50, TopP: 0.9, MinP: 0.01, RepetitionPenalty: 1.1, FrequencyPenalty: 0.1, PresencePenalty: 0.1,
		PenaltyWindow: 4, Seed: 7}
	one, report := run(hot)
	equal(t, report.Seed, uint64(7))
	two, _ := run(hot)
	equal(t, one, two)
	hot.Seed = 8
	two, _ = run(hot)
	check(t, !equalTokens(one, two), one)
	_, report = run(GenerateOptions{MaxTokens: 50, StopTokens: []int32{first[3]}})
	equal(t, report.Reason, ReasonStop)

	whole := r.open(prompt...)
	r.answer(whole, 40)
	text, err := whole.Text(4, End, 0)
	must(t, err)
	word := strings.Trim(text[3:], "\ufffd \n")[:1]
	_, report = run(GenerateOptions{MaxTokens: 40, StopStrings: []string{"no such text", word}})
	equal(t, report.Reason, ReasonStop)
	check(t, report.StopStringTokens > 0, report)
	for _, bad := range []GenerateOptions{{TopP: 2}, {StopStrings: []string{"a\x00b"}}, {GrammarKind: GrammarGBNF, Grammar: "root ::= ("}, {Sampler: 9}} {
		options := bad
		fails(t, whole.Begin(&options), StatusInvalid)
	}
}

func equalTokens(a, b []int32) bool {
	for i := range a {
		if i >= len(b) || a[i] != b[i] {
			return false
		}
	}
	return len(a) == len(b)
}

func TestHostSampler(t *testing.T) {
	r := newRig(t)
	own := r.answer(r.open(prompt...), 10)
	options := &GenerateOptions{MaxTokens: 10, IgnoreEOS: true, Sampler: SamplerHost}
	s := r.open(prompt...)
	_, err := s.Generate(background, options, func(e Event) error {
		if e.Type == EventLogits {
			return s.Accept(best(e.Logits))
		}
		return nil
	})
	must(t, err)
	equal(t, tokensOf(t, s)[4:], own)

	s = r.open(prompt...) // by Begin, Step and Next
	must(t, s.Begin(options))
	for done := false; !done; {
		e, err := s.Next(0)
		must(t, err)
		switch e.Type {
		case EventNone:
			_, err = r.model.Step(10)
			must(t, err)
		case EventLogits:
			_, err = s.Next(0)
			fails(t, err, StatusInvalid, DetailState)
			must(t, s.Accept(best(e.Logits)))
		case EventDone:
			done = true
		}
	}
	equal(t, tokensOf(t, s)[4:], own)
	e, err := s.Next(-1)
	must(t, err)
	equal(t, e.Type, EventIdle)

	stream, err := r.open(prompt...).Stream(background, options)
	must(t, err)
	_, err = stream.Next()
	for i := 0; i < 5 && err == nil; i++ {
		_, err = stream.Next()
	}
	fails(t, err, DetailState)
	must(t, stream.Close()) // also where a token is due
}

func TestForkAndRewind(t *testing.T) {
	r := newRig(t)
	s := r.open(prompt...)
	report, err := s.Prefill(background, LogitsLast, nil)
	must(t, err)
	equal(t, []any{report.Reason, report.Prefilled}, []any{ReasonPrefilled, uint64(4)})
	copy, err := s.Fork(nil)
	must(t, err)
	defer copy.Close()
	want := r.answer(s, 40)
	equal(t, r.answer(copy, 40), want)
	must(t, s.Truncate(20))
	equal(t, r.answer(s, 24), want[16:])
	must(t, s.Mark(0))
	must(t, s.Erase(2, 4))
	equal(t, tokensOf(t, s)[:4], []int32{5, 6, want[0], want[1]})
	fails(t, s.Truncate(999), StatusInvalid)
	_, err = s.Text(0, 999, 0)
	fails(t, err, StatusInvalid)
}

func TestMessages(t *testing.T) {
	r := newRig(t)
	s := r.open()
	must(t, s.AppendText("dropped", 0))
	info, err := s.AppendMessage(Message{"system", "Be brief."})
	must(t, err)
	check(t, info.Appended > 0 && info.Rewritten > 0, info)
	_, err = s.AppendMessage(map[string]any{"role": "user", "content": "Hello \"you\" \U0001f600 <&>"})
	must(t, err)
	answer := r.answer(s, 5)
	message, props, err := s.Message(1)
	must(t, err)
	var back Message
	must(t, json.Unmarshal(message, &back))
	equal(t, back, Message{"user", "Hello \"you\" \U0001f600 <&>"})
	check(t, !props.Generated, props)
	_, props, err = s.Message(2)
	must(t, err)
	check(t, props.Generated, props)
	equal(t, tokensOf(t, s)[props.Begin:props.End][:5], answer)
	_, _, err = s.Message(3)
	fails(t, err, StatusNotFound)
	info, err = s.SetMessages([]Message{{"system", "Be brief."}, {"user", "Bye"}})
	must(t, err)
	check(t, info.Rewritten > 0, info)
	_, err = s.AppendMessage(json.RawMessage(`{"content": 1}`))
	fails(t, err, StatusInvalid)
	_, err = s.AppendMessage(math.NaN())
	fails(t, err, StatusInvalid)
}

func TestToolsAndSchema(t *testing.T) {
	r := newRig(t)
	schema := `{"type": "object", "properties": {"a": {"enum": ["x", "yy"]}}, "required": ["a"], "additionalProperties": false}`
	s := r.open(prompt...)
	_, err := s.Generate(background, &GenerateOptions{GrammarKind: GrammarJSONSchema, Grammar: schema, Temperature: 1.5, Seed: 3}, nil)
	must(t, err)
	text, err := s.Text(4, End, 0)
	must(t, err)
	var got struct{ A string }
	must(t, json.Unmarshal([]byte(text), &got))
	check(t, got.A == "x" || got.A == "yy", text)
	fails(t, s.Begin(&GenerateOptions{GrammarKind: GrammarJSONSchema, Grammar: `{"type": 7}`}), StatusInvalid, DetailGrammarError)

	tool := func(name string) any {
		return map[string]any{"type": "function", "function": map[string]any{"name": name, "parameters": json.RawMessage(
			`{"type": "object", "properties": {"n": {"enum": [1, 2]}}, "required": ["n"]}`)}}
	}
	s, err = r.model.OpenSession(&SessionOptions{Tools: []any{tool("f"), tool("g")}, Domain: "team", Variables: map[string]any{"x": 1}})
	must(t, err)
	defer s.Close()
	_, err = s.AppendMessage(Message{"user", "Hello"})
	must(t, err)
	calls := 0
	_, err = s.Generate(background, &GenerateOptions{Reply: ReplyHermes, ToolChoice: ToolChoiceNamed, ToolName: "g", Temperature: 1, Seed: 7}, func(e Event) error {
		if e.Type != EventToolCall {
			return nil
		}
		var call struct {
			Name      string
			Arguments struct{ N int }
		}
		calls++
		if err := json.Unmarshal([]byte(e.Text), &call); err != nil || call.Name != "g" || call.Arguments.N < 1 || call.Arguments.N > 2 {
			return errors.New(e.Text)
		}
		return nil
	})
	must(t, err)
	check(t, calls > 0)
	fails(t, s.Begin(&GenerateOptions{Reply: ReplyHermes, ToolChoice: ToolChoiceNamed, ToolName: "h"}), StatusInvalid)
	_, err = r.model.OpenSession(&SessionOptions{Tools: "no array"})
	fails(t, err, StatusInvalid)
	_, err = r.model.OpenSession(&SessionOptions{Documents: make(chan int)})
	fails(t, err, StatusInvalid)
}

// An answer that is cut again and again within its grammar ends as the grammar has it, also when it was resumed.
func TestCutAnswer(t *testing.T) {
	r := newRig(t)
	s := r.open(prompt...)
	defer func() { s.Close() }()
	said := ""
	options := &GenerateOptions{MaxTokens: 3, GrammarKind: GrammarJSONSchema, Grammar: `{"enum": ["a rather long constant"]}`}
	for pieces := 1; ; pieces++ {
		report, err := s.Generate(background, options, func(e Event) error { said += e.Text; return nil })
		must(t, err)
		if report.Reason != ReasonMaxTokens {
			check(t, pieces > 2, "it was never cut")
			break
		}
		_, err = s.Suspend("cut", nil)
		must(t, err)
		s.Close()
		s, _, err = r.model.Resume(background, r.store, "cut", nil, nil)
		must(t, err)
		options = &GenerateOptions{MaxTokens: 3, GrammarKind: GrammarContinue}
	}
	equal(t, said, `"a rather long constant"`)
	_, err := s.Generate(background, options, nil)
	fails(t, err, StatusInvalid) // it is whole
}

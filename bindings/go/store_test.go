package kvrt

import (
	"encoding/json"
	"errors"
	"os"
	"testing"
)

var errMine = errors.New("mine")

// computed gives a session whose KV is there to be saved.
func (r *rig) computed(tokens ...int32) *Session {
	s := r.open(tokens...)
	_, err := s.Prefill(background, LogitsNone, nil)
	must(r.t, err)
	return s
}

func many(token int32, count int) (out []int32) {
	for i := 0; i < count; i++ {
		out = append(out, token)
	}
	return out
}

func TestResumeOrOpen(t *testing.T) {
	r := newRig(t)
	_, _, err := r.model.Resume(background, r.store, "ann", nil, nil)
	fails(t, err, StatusNotFound)
	none, first, err := r.model.ResumeOrOpen(background, r.store, "ann", &SessionOptions{Domain: "d"}, nil)
	must(t, err)
	check(t, first == nil, first)
	must(t, none.Append(many(9, 70)))
	_, err = none.Suspend("ann", nil) // the options' domain and the store
	must(t, err)
	none.Close()
	stored, second, err := r.model.ResumeOrOpen(background, r.store, "ann", &SessionOptions{Domain: "d"}, nil)
	must(t, err)
	check(t, second != nil && second.PromptTokens == 70, second)
	stored.Close()
	for _, messages := range []uint64{0, 2} { // autosave takes the name
		s, _, err := r.model.ResumeOrOpen(background, r.store, "bob", &SessionOptions{AutosaveTurn: true}, nil)
		must(t, err)
		info, err := s.Info()
		must(t, err)
		equal(t, info.Messages, messages)
		_, err = s.AppendMessage(Message{Role: "user", Content: "Hello"})
		must(t, err)
		_, err = s.Generate(background, &GenerateOptions{MaxTokens: 4}, nil)
		must(t, err)
		s.Close()
	}
	_, _, err = r.model.ResumeOrOpen(background, nil, "ann", nil, nil)
	fails(t, err, StatusInvalid)

	s := r.computed(many(9, 70)...)
	r.answer(s, 6)
	saved, err := s.Suspend("ann", &SaveOptions{Durability: DurabilityKV, Codec: CodecNone, TTLSeconds: 3600, Pin: 7})
	must(t, err)
	equal(t, []any{saved.Tokens, saved.ChunksMissing}, []any{uint64(76), uint64(0)})
	info, err := s.Info()
	must(t, err)
	equal(t, []any{info.State, info.KVUnits, info.Name}, []any{StateSuspended, uint64(0), "ann"})
	want := r.answer(s, 10)

	fresh, err := r.runtime.OpenModel(background, modelPath, nil, nil) // another pool: what comes back comes from the disk
	must(t, err)
	defer fresh.Close()
	seen := 0
	again, report, err := fresh.Resume(background, r.store, "ann", nil, func(e Event) error {
		seen++
		return unequal(e.Type, EventProgress)
	})
	must(t, err)
	defer again.Close()
	check(t, seen > 0 && report.ReusedDisk > 0, seen, report)
	equal(t, r.answer(again, 10), want)

	_, _, err = fresh.Resume(background, r.store, "ann", nil, func(Event) error { return errMine })
	equal(t, err, errMine)
	equal(t, sessions(t, fresh), uint64(1))
}

func TestStoreVerbs(t *testing.T) {
	r := newRig(t)
	_, err := r.computed(many(9, 70)...).Checkpoint("bob", nil)
	must(t, err)
	team, err := r.model.OpenSession(&SessionOptions{Store: r.store, Domain: "team"})
	must(t, err)
	defer team.Close()
	_, err = team.AppendMessage(Message{"user", "Hello"})
	must(t, err)
	_, err = team.Checkpoint("ann", &SaveOptions{Pin: 7})
	must(t, err)

	list := func(f func(func(StoreEntry) error) error) (names []string) {
		must(t, f(func(e StoreEntry) error { names = append(names, e.Domain+"/"+e.Name); return nil }))
		return names
	}
	all := func(fn func(StoreEntry) error) error { return r.store.List(background, fn) }
	equal(t, list(all), []string{"/bob", "team/ann"})
	equal(t, list(func(fn func(StoreEntry) error) error { return r.store.ListDomain(background, "", fn) }), []string{"/bob"})
	equal(t, all(func(StoreEntry) error { return errMine }), errMine)

	entry, err := r.store.Stat("team", "ann")
	must(t, err)
	equal(t, []any{entry.Pinned, len(entry.ID), entry.ExpiresUnixMs}, []any{uint32(7), 32, int64(0)})
	shown, err := r.store.Show("team", "ann")
	must(t, err)
	var content struct {
		Name     string
		Messages []Message
	}
	must(t, json.Unmarshal(shown, &content))
	equal(t, content.Messages, []Message{{"user", "Hello"}})
	must(t, r.store.Pin("team", "ann", 0))
	must(t, r.store.SetTTL("team", "ann", 60))
	entry, err = r.store.Stat("team", "ann")
	must(t, err)
	check(t, entry.Pinned == 0 && entry.ExpiresUnixMs > entry.SavedUnixMs, entry)
	must(t, r.store.Rename("", "bob", "carl"))
	equal(t, list(all), []string{"/carl", "team/ann"})

	_, err = r.open(prompt...).Checkpoint("carl", nil)
	fails(t, err, StatusConflict, DetailNameTaken)
	check(t, !errors.Is(err, DetailNone) && !errors.Is(err, StatusBusy), err)
	info, err := r.store.Info()
	must(t, err)
	equal(t, []any{info.Sessions, info.ReadOnly}, []any{uint64(2), uint32(0)})
	must(t, r.store.Remove("", "carl"))
	fails(t, r.store.Remove("", "carl"), StatusNotFound)
	report, err := r.store.GC(background, nil)
	must(t, err)
	check(t, report.Ms > 0 && report.LogBytesKept == 0, report)
	old, err := r.store.RemoveOld()
	must(t, err)
	equal(t, old, uint64(0))
	must(t, r.store.Verify(background, nil))
}

func TestRepair(t *testing.T) {
	r := newRig(t)
	s := r.computed(many(9, 70)...)
	_, err := s.Suspend("ann", nil)
	must(t, err)
	s.Close()
	r.store.Close()
	damaged := r.dir + "/store/catalog.db"
	must(t, os.Truncate(damaged, 100))
	os.Remove(damaged + "-wal")
	_, err = r.runtime.OpenStore(r.dir+"/store", nil)
	fails(t, err, StatusCorrupt, DetailCatalogCorrupt)
	_, err = r.runtime.RepairStore(background, r.dir+"/store", func(Event) error { return errMine })
	equal(t, err, errMine)
	faults := 0
	report, err := r.runtime.RepairStore(background, r.dir+"/store", func(e Event) error {
		if e.Type == EventFault && e.Text != "" {
			faults++
		}
		return nil
	})
	must(t, err)
	check(t, faults > 0)
	check(t, report.Outcome == RepairRebuilt && report.ChunksOrphaned > 0, report) // the session was in the catalog alone
}

func TestAutosaveAndWake(t *testing.T) {
	r := newRig(t)
	woken := make(chan struct{}, 1000)
	s, err := r.model.OpenSession(&SessionOptions{Store: r.store, AutosaveName: "auto", AutosaveTurn: true, Wake: func() { woken <- struct{}{} }})
	must(t, err)
	must(t, s.Append(many(6, 40)))
	r.answer(s, 5)
	soon(t, "autosave", func() bool { e, err := r.store.Stat("", "auto"); return err == nil && e.Tokens == 45 })
	check(t, len(woken) > 0)
	copy, err := s.Fork(&SessionOptions{Wake: func() { woken <- struct{}{} }})
	must(t, err)
	copy.Close()
	must(t, s.Append([]int32{7, 7, 7}))
	s.Close()
	e, err := r.store.Stat("", "auto")
	must(t, err)
	equal(t, e.Tokens, uint64(48))
	_, err = r.model.OpenSession(&SessionOptions{AutosaveTurn: true})
	fails(t, err, StatusInvalid)
}

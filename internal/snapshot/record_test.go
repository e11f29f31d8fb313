package snapshot

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var now = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

func TestRecordsComeBackAsWritten(t *testing.T) {
	who := Drainer{ID: "d1", By: "me@host", PID: 7, Boot: "x", Beat: now}
	drain := &DrainRecord{Drainer: who, Why: "disk", Since: now.Add(-time.Minute), Cordoned: true, State: "draining"}
	text, err := drain.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseDrainRecord(text)
	if diff := cmp.Diff(drain, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}

	surge := &SurgeRecord{Drainer: who, Was: 2, To: 5, Since: now, Step: now.Add(time.Second)}
	if text, err = surge.Encode(); err != nil {
		t.Fatal(err)
	}
	back, err := ParseSurgeRecord(text)
	if diff := cmp.Diff(surge, back); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestNoRecord(t *testing.T) {
	if r, err := ParseDrainRecord(""); r != nil || err != nil {
		t.Errorf("%v, %v", r, err)
	}
	if r, err := ParseSurgeRecord(""); r != nil || err != nil {
		t.Errorf("%v, %v", r, err)
	}
}

func TestRecordsThatCannotBeRead(t *testing.T) {
	drains := map[string]string{
		"no JSON":       `draining`,
		"another kind":  `[1]`,
		"nothing":       `null`,
		"no id":         `{"by":"me"}`,
		"cut off":       `{"id":"d1","by`,
		"a wrong field": `{"id":"d1","cordoned":"yes"}`,
		"a wrong time":  `{"id":"d1","since":"yesterday"}`,
	}
	for name, text := range drains {
		if r, err := ParseDrainRecord(text); err == nil || r != nil {
			t.Errorf("drain record, %s: %v, %v", name, r, err)
		}
	}
	surges := map[string]string{
		"no id":              `{"was":1,"to":2}`,
		"less than none":     `{"id":"d1","was":-1,"to":2}`,
		"fewer than before":  `{"id":"d1","was":3,"to":2}`,
		"too large a number": `{"id":"d1","was":1,"to":4294967297}`,
		"a broken number":    `{"id":"d1","was":1.5,"to":2}`,
	}
	for name, text := range surges {
		if r, err := ParseSurgeRecord(text); err == nil || r != nil {
			t.Errorf("surge record, %s: %v, %v", name, r, err)
		}
	}
}

// The author of a record is printed, and the kubelet of a node may write its annotations.
func TestWordsOfRecordsArePrintable(t *testing.T) {
	r, err := ParseDrainRecord(`{"id":"x","by":"eve\u001b[2J\u001b]0;owned\u0007","why":"\u202etxt","state":"draining\u009b1m"}`)
	if err != nil || r.By != "eve" || r.Why != "txt" || r.State != "draining" {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := ParseSurgeRecord(`{"id":"x\u001b[2J","was":1,"to":2}`); err == nil {
		t.Errorf("%+v", r)
	}
}

func TestSignOfLife(t *testing.T) {
	who := Drainer{Beat: now}
	for after, alive := range map[time.Duration]bool{-time.Hour: false, -LiveFor - 1: false, -LiveFor: true, 0: true, LiveFor - 1: true, LiveFor: false, time.Hour: false} {
		if who.LiveAt(now.Add(after)) != alive {
			t.Errorf("alive %s after its beat: want %v", after, alive)
		}
	}
}

// What is read may be anything: it is an annotation. What is accepted can be written
// and read again.
func FuzzDrainRecord(f *testing.F) {
	f.Add(`{"id":"d1","by":"me@host","pid":7,"beat":"2026-03-01T12:00:00Z","since":"2026-03-01T12:00:00Z","cordoned":true,"state":"draining"}`)
	f.Add(`{"ID":"d1","id":"d2"}`)
	f.Add(``)
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseDrainRecord(text)
		if err != nil && r != nil || err == nil && r == nil && text != "" {
			t.Fatalf("%v, %v", r, err)
		}
		if r == nil {
			return
		}
		if r.ID == "" {
			t.Fatal("a record without an ID")
		}
		again(t, r, ParseDrainRecord)
	})
}

func FuzzSurgeRecord(f *testing.F) {
	f.Add(`{"id":"d1","by":"me@host","beat":"2026-03-01T12:00:00Z","was":1,"to":2,"since":"2026-03-01T12:00:00Z","step":"2026-03-01T12:00:00Z"}`)
	f.Add(`{"id":"d1","was":0,"to":0}`)
	f.Add(`{"id":"d1","was":2147483647,"to":2147483647}`)
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseSurgeRecord(text)
		if err != nil && r != nil || err == nil && r == nil && text != "" {
			t.Fatalf("%v, %v", r, err)
		}
		if r == nil {
			return
		}
		if r.ID == "" || r.Was < 0 || r.To < r.Was {
			t.Fatalf("accepted %+v", r)
		}
		again(t, r, ParseSurgeRecord)
	})
}

func again[R interface{ Encode() (string, error) }](t *testing.T, r R, parse func(string) (R, error)) {
	t.Helper()
	text, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, got); diff != "" {
		t.Fatal(diff)
	}
}

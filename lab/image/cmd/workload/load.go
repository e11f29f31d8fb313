package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"time"
)

// load is what the program does to its node at the moment.
type load struct {
	ready  atomic.Bool
	memory memory
	disk   disk
	pids   pids
}

func newLoad(ready bool) *load {
	l := &load{}
	l.ready.Store(ready)
	return l
}

func (l *load) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", l.name)
	mux.HandleFunc("GET /ready", l.answerReady)
	mux.HandleFunc("POST /ready", l.setReady)
	mux.HandleFunc("GET /fetch", fetch)
	// The four loads are set to a number, not raised by it: asking twice is harmless, asking for 0 gives all back.
	mux.HandleFunc("POST /memory", setting("mib", func(mib, rate int, _ *http.Request) error {
		return l.memory.set(mib, rate)
	}))
	mux.HandleFunc("POST /disk", setting("mib", func(mib, rate int, r *http.Request) error {
		return l.disk.setSpace(r.FormValue("dir"), mib, rate)
	}))
	mux.HandleFunc("POST /inodes", setting("count", func(count, rate int, r *http.Request) error {
		return l.disk.setInodes(r.FormValue("dir"), count, rate)
	}))
	mux.HandleFunc("POST /pids", setting("count", func(count, _ int, _ *http.Request) error {
		return l.pids.set(count)
	}))
	return mux
}

func (l *load) name(w http.ResponseWriter, _ *http.Request) {
	host, err := os.Hostname()
	answer(w, host, err)
}

func (l *load) answerReady(w http.ResponseWriter, _ *http.Request) {
	if !l.ready.Load() {
		http.Error(w, "not ready", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ready")
}

func (l *load) setReady(w http.ResponseWriter, r *http.Request) {
	ready, err := strconv.ParseBool(r.FormValue("value"))
	if err == nil {
		l.ready.Store(ready)
	}
	answer(w, "done", err)
}

// fetch calls another pod from inside this one.
func fetch(w http.ResponseWriter, r *http.Request) {
	request, err := http.NewRequestWithContext(r.Context(), http.MethodGet, r.FormValue("url"), http.NoBody)
	if err != nil {
		answer(w, "", err)
		return
	}
	client := http.Client{Timeout: 10 * time.Second}
	response, err := client.Do(request)
	if err != nil {
		answer(w, "", err)
		return
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	answer(w, string(body), err)
}

func setting(name string, set func(n, rate int, r *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		n, err := number(r, name, -1)
		var rate int
		if err == nil {
			rate, err = number(r, "rate", 0)
		}
		if err == nil {
			err = set(n, rate, r)
		}
		answer(w, "done", err)
	}
}

// number reads a non-negative form value. A negative fallback makes the value required.
func number(r *http.Request, name string, fallback int) (int, error) {
	text := r.FormValue(name)
	if text == "" && fallback >= 0 {
		return fallback, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%s=%q is not a number from 0", name, text)
	}
	return n, nil
}

func answer(w http.ResponseWriter, text string, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	fmt.Fprintln(w, text)
}

// pace keeps a load at a rate. It counts from the start, so that a machine that was busy for a while is caught up with.
type pace struct {
	start time.Time
	rate  int // a second; 0 is as fast as it goes
	done  int
}

func startPace(rate int) *pace { return &pace{start: time.Now(), rate: rate} }

// wait is called after each unit, and returns when the next may follow.
func (p *pace) wait() {
	if p.rate == 0 {
		return
	}
	p.done++
	if early := time.Duration(p.done)*time.Second/time.Duration(p.rate) - time.Since(p.start); early > 0 {
		<-time.After(early)
	}
}

package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func TestLoad(t *testing.T) {
	load := newLoad(true)
	server := httptest.NewServer(load.handler())
	defer server.Close()
	dir := t.TempDir()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		method, path string
		code         int
		want         string
	}{
		{"GET", "/", 200, host},
		{"GET", "/fetch?url=" + server.URL + "/ready", 200, "ready"},
		{"GET", "/fetch?url=http://127.0.0.1:1/", 400, "refused"},
		{"GET", "/ready", 200, "ready"},
		{"POST", "/ready?value=false", 200, ""},
		{"GET", "/ready", 503, "not ready"},
		{"POST", "/ready?value=maybe", 400, "maybe"},
		{"POST", "/ready?value=true", 200, ""},
		{"GET", "/ready", 200, "ready"},
		{"POST", "/memory?mib=3&rate=1000", 200, ""},
		{"POST", "/memory?mib=-3", 400, "not a number from 0"},
		{"POST", "/memory", 400, "not a number from 0"},
		{"POST", "/disk?mib=2&dir=" + dir, 200, ""},
		{"POST", "/disk?mib=2&rate=500&dir=" + dir, 200, ""},
		{"POST", "/disk?mib=2&rate=fast&dir=" + dir, 400, "not a number from 0"},
		{"POST", "/disk?mib=2&dir=" + dir + "/none", 400, "no such file"},
		{"POST", "/inodes?count=5&dir=" + dir, 200, ""},
		{"POST", "/inodes?count=many&dir=" + dir, 400, "not a number from 0"},
	} {
		code, body := call(t, step.method, server.URL+step.path)
		if code != step.code || !strings.Contains(body, step.want) {
			t.Errorf("%s %s: %d %q, want %d %q", step.method, step.path, code, body, step.code, step.want)
		}
	}
	if got := len(load.memory.pages); got != 3 {
		t.Errorf("holds %d MiB of memory, want 3", got)
	}
	if info, err := os.Stat(filepath.Join(dir, "space")); err != nil || info.Size() != 2*mib {
		t.Errorf("disk space: %v %v, want a file of 2 MiB", info, err)
	}
	if files, err := os.ReadDir(filepath.Join(dir, "inodes")); err != nil || len(files) != 5 {
		t.Errorf("inodes: %d files (%v), want 5", len(files), err)
	}
}

// TestMemoryCounts looks at what the kernel counts: mapped but unwritten memory would be no load.
func TestMemoryCounts(t *testing.T) {
	const amount = 64
	var m memory
	before := resident(t)
	if err := m.set(amount, 0); err != nil {
		t.Fatal(err)
	}
	taken := resident(t) - before
	if taken < amount*mib*9/10 {
		t.Errorf("%d bytes more are resident, want about %d MiB", taken, amount)
	}
	if err := m.set(0, 0); err != nil {
		t.Fatal(err)
	}
	if left := resident(t) - before; left > amount*mib/10 {
		t.Errorf("%d bytes are still resident after all was given back", left)
	}
}

// resident reads the second field of /proc/self/statm, in pages.
func resident(t *testing.T) int {
	t.Helper()
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(statm))[1])
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}

func call(t *testing.T, method, url string) (code int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

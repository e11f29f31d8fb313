package cli

import (
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/internal/cli/show"
)

func TestCountSignals(t *testing.T) {
	tests := []struct {
		name    string
		signals []os.Signal
		want    []string
	}{
		{"none", nil, nil},
		{"one", []os.Signal{os.Interrupt}, []string{"first"}},
		{"pressed twice", []os.Signal{os.Interrupt, os.Interrupt}, []string{"first", "second"}},
		{"pressed thrice", []os.Signal{os.Interrupt, os.Interrupt, os.Interrupt}, []string{"first", "second"}},
		{"asked to end twice", []os.Signal{syscall.SIGTERM, syscall.SIGTERM}, []string{"first", "second"}},
		{"a terminal closed", []os.Signal{syscall.SIGHUP, syscall.SIGHUP, syscall.SIGHUP}, []string{"first"}},
		{"pressed, then the terminal closed", []os.Signal{os.Interrupt, syscall.SIGHUP}, []string{"first"}},
		{"closed, then asked to end", []os.Signal{syscall.SIGHUP, syscall.SIGTERM}, []string{"first", "second"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var calls []string
				got, done := make(chan os.Signal, len(tt.signals)), make(chan struct{})
				go countSignals(got, done, func() { calls = append(calls, "first") }, func() { calls = append(calls, "second") })
				for _, s := range tt.signals {
					got <- s
					<-time.After(together)
				}
				synctest.Wait()
				close(done)
				synctest.Wait()
				if diff := cmp.Diff(tt.want, calls); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// timeout(1) sends its signal to the program, and to the group that the program is in: that is one.
func TestOneSignalThatComesTwice(t *testing.T) {
	for _, s := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		synctest.Test(t, func(t *testing.T) {
			var calls []string
			got, done := make(chan os.Signal, 4), make(chan struct{})
			got <- s
			go countSignals(got, done, func() {
				<-time.After(time.Second) // a terminal that is slow
				got <- s
				calls = append(calls, "first")
			}, func() { calls = append(calls, "second") })
			<-time.After(time.Second + together/2)
			got <- s
			synctest.Wait()
			if diff := cmp.Diff([]string{"first"}, calls); diff != "" {
				t.Errorf("%s: %s", s, diff)
			}
			<-time.After(together)
			got <- s
			synctest.Wait()
			close(done)
			if diff := cmp.Diff([]string{"first", "second"}, calls); diff != "" {
				t.Errorf("%s: %s", s, diff)
			}
		})
	}
}

func TestLeavingAtOnceSaysWhatUndoes(t *testing.T) {
	as := typed{others: show.Commands{Program: "kubectl usher", Flags: []string{"--context=lab"}}}
	const revert = "left at once; undo with: kubectl usher --context=lab drain --revert"
	tests := []struct {
		name string
		o    drainOptions
		want string
	}{
		{"named nodes", drainOptions{nodes: []string{"a", "b"}}, revert + ", kubectl usher --context=lab uncordon a b"},
		{"nodes by labels", drainOptions{requestFlags: requestFlags{selector: "rack in (7, 8)"}}, revert + ", kubectl usher --context=lab uncordon -l 'rack in (7, 8)'"},
		{"undoing", drainOptions{revert: true}, revert},
	}
	for _, tt := range tests {
		tt.o.typed = as
		if got := tt.o.leftWords(); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

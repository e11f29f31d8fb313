package cli

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"

	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/snapshot"
)

func TestStartOfReadsPastStrangeNames(t *testing.T) {
	proc := t.TempDir()
	fields := " S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20 21"
	for pid, name := range map[string]string{"7": "(usher)", "8": "(a) b (c)"} {
		if err := os.Mkdir(filepath.Join(proc, pid), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(proc, pid, "stat"), []byte(pid+" "+name+fields), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for pid, want := range map[int]string{7: "4711", 8: "4711", 9: ""} {
		if got := startOf(proc, pid); got != want {
			t.Errorf("startOf(%d) = %q, want %q", pid, got, want)
		}
	}
}

func TestEndedOnlyWhereItIsCertain(t *testing.T) {
	h := host{name: "desk", boot: "kernel/pid:[1]", start: func(pid int) string { return map[int]string{10: "500"}[pid] }}
	tests := []struct {
		name string
		d    snapshot.Drainer
		want bool
	}{
		{"it still runs", snapshot.Drainer{PID: 10, Boot: "kernel/pid:[1]/500"}, false},
		{"its number has gone", snapshot.Drainer{PID: 11, Boot: "kernel/pid:[1]/500"}, true},
		{"its number was given to another", snapshot.Drainer{PID: 10, Boot: "kernel/pid:[1]/499"}, true},
		{"another run of the kernel, or another machine of this name", snapshot.Drainer{PID: 11, Boot: "other/pid:[1]/500"}, false},
		{"another container on this machine", snapshot.Drainer{PID: 11, Boot: "kernel/pid:[2]/500"}, false},
		{"not known where it ran", snapshot.Drainer{PID: 11}, false},
		{"no number", snapshot.Drainer{Boot: "kernel/pid:[1]/500"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := h.ended(tt.d); got != tt.want {
				t.Errorf("ended = %t, want %t", got, tt.want)
			}
		})
	}
	blind := h
	blind.boot = ""
	if blind.ended(snapshot.Drainer{PID: 11, Boot: "/500"}) {
		t.Error("a host whose boot is unknown took a drain for dead")
	}
}

func TestAbandoned(t *testing.T) {
	h := host{boot: "k", start: func(pid int) string { return map[int]string{10: "1"}[pid] }}
	tests := []struct {
		name  string
		drain *snapshot.DrainRecord
		want  bool
	}{
		{"no drain", nil, false},
		{"killed", &snapshot.DrainRecord{Drainer: snapshot.Drainer{PID: 5, Boot: "k/1", Beat: noon}, State: "draining"}, true},
		{"still at work", &snapshot.DrainRecord{Drainer: snapshot.Drainer{PID: 10, Boot: "k/1", Beat: noon}, State: "draining"}, false},
		{"elsewhere, and silent for long", &snapshot.DrainRecord{Drainer: snapshot.Drainer{Beat: noon.Add(-time.Hour)}, State: "draining"}, true},
		{"done", &snapshot.DrainRecord{Drainer: snapshot.Drainer{PID: 5, Boot: "k/1", Beat: noon}, State: "drained"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			node, c := &snapshot.Node{Name: "a", Drain: tt.drain}, snapshot.NewCluster()
			c.SetNode(node)
			if got := h.abandoned(node, snapshot.View{Now: noon, Cluster: c}); got != tt.want {
				t.Errorf("abandoned = %t, want %t", got, tt.want)
			}
		})
	}
}

// A drain that another process goes on with has not ended with the process of its record.
func TestDeadAfterAnotherProcessWentOn(t *testing.T) {
	h := host{boot: "k", start: func(int) string { return "" }}
	who := snapshot.Drainer{ID: "x", By: "root@vm", PID: 5, Boot: "k/1", Lease: true}
	for holder, want := range map[string]bool{"root@vm/5": true, "root@other/5": false, "": true} {
		c := snapshot.NewCluster()
		c.SetNode(&snapshot.Node{Name: "a", Drain: &snapshot.DrainRecord{Drainer: who, State: "draining"}})
		if holder != "" {
			c.SetLease(&snapshot.Lease{ID: "x", Holder: holder})
		}
		if got := h.dead(c)["x"]; got != want {
			t.Errorf("held by %q: dead %v, want %v", holder, got, want)
		}
	}
}

func TestDeadLooksAtEveryRecord(t *testing.T) {
	h := host{boot: "k", start: func(int) string { return "" }}
	gone := func(id string) snapshot.Drainer { return snapshot.Drainer{ID: id, PID: 5, Boot: "k/1"} }
	c := snapshot.NewCluster()
	c.SetNode(&snapshot.Node{Name: "a", Drain: &snapshot.DrainRecord{Drainer: gone("node")}})
	c.SetNode(&snapshot.Node{Name: "b"})
	c.SetWorkload(&snapshot.Workload{UID: "w", Surge: &snapshot.SurgeRecord{Drainer: gone("workload")}})
	c.SetAutoscaler(&snapshot.Autoscaler{Name: "h", Surge: &snapshot.SurgeRecord{Drainer: gone("autoscaler")}})
	c.SetAutoscaler(&snapshot.Autoscaler{Name: "other", Surge: &snapshot.SurgeRecord{Drainer: snapshot.Drainer{ID: "x", PID: 5, Boot: "elsewhere/1"}}})
	if diff := cmp.Diff(map[string]bool{"node": true, "workload": true, "autoscaler": true}, h.dead(c)); diff != "" {
		t.Error(diff)
	}
}

// Users of a namespace can write what they like on their Deployments, the id of a drain that runs included.
func TestRecordOnAWorkloadEndsNoDrainOfANode(t *testing.T) {
	h := host{boot: "k", start: func(pid int) string { return map[int]string{10: "1"}[pid] }}
	runs, forged := snapshot.Drainer{ID: "d", PID: 10, Boot: "k/1"}, snapshot.Drainer{ID: "d", PID: 5, Boot: "k/1"}
	c := snapshot.NewCluster()
	c.SetNode(&snapshot.Node{Name: "a", Drain: &snapshot.DrainRecord{Drainer: runs}})
	c.SetWorkload(&snapshot.Workload{UID: "w", Surge: &snapshot.SurgeRecord{Drainer: forged}})
	c.SetAutoscaler(&snapshot.Autoscaler{Name: "h", Surge: &snapshot.SurgeRecord{Drainer: forged}})
	if diff := cmp.Diff(map[string]bool{}, h.dead(c)); diff != "" {
		t.Error(diff)
	}
}

func TestThisProcessIsNotDead(t *testing.T) {
	h := thisHost()
	if h.boot == "" {
		t.Skip("SKIPPED: no /proc here, so nothing is known of processes")
	}
	me := h.self(noon)
	if h.ended(me) || me.Boot == "" || me.PID != os.Getpid() || len(me.ID) != 10 {
		t.Errorf("self = %+v, ended %t", me, h.ended(me))
	}
	if other := h.self(noon); other.ID == me.ID {
		t.Errorf("two runs share the id %s", me.ID)
	}
}

// A process finds itself in what it has written, which is read without what a terminal obeys and with single spaces.
func TestSelfIsReadAsItWasWritten(t *testing.T) {
	who := host{name: "anna's  desk\u200b\t", boot: "kernel", start: func(int) string { return "500" }}.self(time.Now())
	written, err := (&snapshot.DrainRecord{Drainer: who}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	read, err := snapshot.ParseDrainRecord(written)
	if err != nil || !read.SameProcess(who) {
		t.Errorf("%q is read as %q, %v", who.By, read.By, err)
	}
	holder := who.Holder()
	lease := observe.LeaseFacts(&coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder}})
	if lease.Holder != holder {
		t.Errorf("the holder %q is read as %q", holder, lease.Holder)
	}
}

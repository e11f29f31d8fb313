package agent

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"usher.sh/usher/internal/agent/machine"
	"usher.sh/usher/internal/nodepressure"
	"usher.sh/usher/internal/nodepressure/record"
)

// mostRecords is how many are kept; the oldest go.
const mostRecords = 20

const recordSuffix = ".json"

// records keep what was decided on, for those who ask later why a pod went: usher pressure -f reads one.
type records struct {
	mu  sync.Mutex
	dir string // "": nothing is kept
}

func openRecords(dir string) (*records, error) {
	if dir == "" {
		return &records{}, nil
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("making the folder for records: %w", err)
	}
	return &records{dir: dir}, nil
}

// newRecord is what an action was decided on.
func newRecord(a *nodepressure.Action, in *nodepressure.ReliefInput) record.Record {
	r := record.New(in.Now, in.Node, in.Pods)
	r.Config, r.ConfigFrom, r.Order = in.Config, record.FromAgent, in.Order
	r.Notes = append([]string{fmt.Sprintf("%s of %s: %s", a.Kind, a.Pod.Key(), a.Message)}, passedOver(a)...)
	return r
}

// passedOver says why those that were before the pod in the order did not go in its place.
func passedOver(a *nodepressure.Action) []string {
	var notes []string
	for i := range a.Ranking {
		one := &a.Ranking[i]
		if one.Pod.UID == a.Pod.UID {
			break
		}
		notes = append(notes, fmt.Sprintf("%s was passed over: %s", one.Pod.Key(), cmp.Or(one.Exempt, "a policy governs it, and others can help")))
	}
	return notes
}

// keep writes a record in the background: nothing waits for it, least of all where the disk is what is short.
func (r *records) keep(log *slog.Logger, m *machine.Machine, one record.Record, here *podList) {
	if r.dir == "" {
		return
	}
	go func() {
		one.Pods = withContainers(m, here, one.Pods)
		if err := r.write(one); err != nil {
			log.Warn("a record could not be kept", "error", err.Error())
		}
	}()
}

func (r *records) write(one record.Record) error {
	text, err := json.Marshal(one)
	if err != nil {
		return fmt.Errorf("writing a record: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	name := filepath.Join(r.dir, one.At.UTC().Format("20060102T150405.000000000Z")+recordSuffix)
	if err := os.WriteFile(name+".new", text, 0o640); err != nil {
		return errors.Join(fmt.Errorf("writing a record: %w", err), os.Remove(name+".new"))
	}
	if err := os.Rename(name+".new", name); err != nil {
		return fmt.Errorf("writing a record: %w", err)
	}
	return r.prune()
}

// prune removes the oldest: their names begin with the time.
func (r *records) prune() error {
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return fmt.Errorf("removing old records: %w", err)
	}
	kept := slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return !strings.HasSuffix(e.Name(), recordSuffix) })
	for _, old := range kept[:max(len(kept)-mostRecords, 0)] {
		if err := os.Remove(filepath.Join(r.dir, old.Name())); err != nil {
			return fmt.Errorf("removing an old record: %w", err)
		}
	}
	return nil
}

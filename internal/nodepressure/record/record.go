// Package record answers: what was known of a node at the moment when it was asked which pod goes first? `usher agent` keeps
// records of what it did, `usher pressure -o json` prints one, and `usher pressure -f` explains either later.
package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/internal/nodepressure"
)

// version is that of the format. Fields may be added without a new one.
const version = 1

// Record is one look at a node.
type Record struct {
	// Version is what distinguishes a record from other JSON; New sets it.
	Version int                 `json:"record"`
	At      time.Time           `json:"at"`
	Node    nodepressure.Node   `json:"node"`
	Pods    []nodepressure.Pod  `json:"pods"`
	Config  nodepressure.Config `json:"config"`
	// ConfigFrom says whose thresholds Config holds.
	ConfigFrom Source `json:"configFrom"`
	// Order is the one in which the writer of the record evicts.
	Order nodepressure.Order `json:"order,omitempty"`
	// Reported are the conditions that the node itself reported as true.
	Reported []Condition `json:"reported,omitempty"`
	// Notes say what was not known, for people.
	Notes []string `json:"notes,omitempty"`
}

// Source says whose thresholds those of a record are.
type Source string

// The sources.
const (
	FromKubelet  Source = "kubelet"  // the node's own kubelet named them
	FromAgent    Source = "agent"    // those of usher agent
	FromDefaults Source = "defaults" // none could be read, and the kubelet's defaults were taken
)

// Condition is a condition of a node that is true.
type Condition struct {
	Type  corev1.NodeConditionType `json:"type"`
	Since time.Time                `json:"since"`
}

// New returns a record of a node at a moment, with the default thresholds.
func New(at time.Time, node nodepressure.Node, pods []nodepressure.Pod) Record {
	return Record{Version: version, At: at, Node: node, Pods: pods, Config: nodepressure.Default(), ConfigFrom: FromDefaults}
}

// Is reports whether a text is meant to be a record, whole or not.
func Is(text []byte) bool {
	decoder := json.NewDecoder(bytes.NewReader(text))
	if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
		return false
	}
	// New writes the version first, so that what is cut short is known as well; others may have sorted the fields since.
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil || name == "record" {
			return err == nil
		}
		var value json.RawMessage
		if decoder.Decode(&value) != nil {
			return false
		}
	}
	return false
}

// Parse reads a record; fields that it does not know are left out.
func Parse(text []byte) (Record, error) {
	var r Record
	if err := json.Unmarshal(text, &r); err != nil {
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok && strings.Contains(syntax.Error(), "unexpected end") {
			return Record{}, fmt.Errorf("the record breaks off after %d bytes: it was cut short while it was sent or written: %w", len(text), err)
		}
		return Record{}, fmt.Errorf("reading the record: %w", err)
	}
	switch {
	case r.Version != version:
		return Record{}, fmt.Errorf("the record is of version %d, and this usher reads version %d: read it with the usher that wrote it", r.Version, version)
	case r.Node.Name == "":
		return Record{}, errors.New("the record names no node")
	case r.Order != "" && !slices.Contains(nodepressure.Orders(), r.Order):
		return Record{}, fmt.Errorf("the record goes by an order %q that this usher does not know", r.Order)
	}
	if wrong := r.Config.Validate(); len(wrong) > 0 {
		return Record{}, fmt.Errorf("reading the record: %w", wrong.ToAggregate())
	}
	return r, nil
}

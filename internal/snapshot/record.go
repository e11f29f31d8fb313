package snapshot

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/text"
)

// Names of what Usher writes on objects.
const (
	// FieldManager owns the fields that Usher sets.
	FieldManager = "usher"
	// DrainAnnotation holds a DrainRecord on a node.
	DrainAnnotation = "usher.sh/drain"
	// SurgeAnnotation holds a SurgeRecord on a Deployment, another kind with the subresource scale, or a HorizontalPodAutoscaler.
	SurgeAnnotation = "usher.sh/surge"
	// SurgeLabel marks objects whose SurgeRecord is in force: copies of the annotation,
	// in ReplicaSets and in what `kubectl rollout undo` restores from them, lack it. It marks pods
	// with a CostMarkAnnotation as well. What killed drains left is found by it without reading everything.
	SurgeLabel = "usher.sh/surge"
	// DrainLabel marks the EvictionRequests of drains, and nodes that carry a DrainRecord, with the id of the drain: other drains
	// find them by it.
	DrainLabel = "usher.sh/drain"
	// MarksAnnotation says on a node what NodeMaintenances with another action than Drain have set there: the words of its Marks, with commas between.
	MarksAnnotation = "usher.sh/marks"
	// CordonMark is the mark of a cordon. A taint's is the taint, as kubectl writes it.
	CordonMark = "cordon"
	// OrderAnnotation sets an integer on a pod: lower leaves first, default 0.
	OrderAnnotation = "usher.sh/order"
	// CostAnnotation is Kubernetes' own: which pod a ReplicaSet removes first.
	CostAnnotation = "controller.kubernetes.io/pod-deletion-cost"
	// CostMarkAnnotation holds on a pod which drain lowered its deletion cost and what
	// it was: "<drain id>" or "<drain id>=<former value>".
	CostMarkAnnotation = "usher.sh/surge-cost"
	// LowestCost is the deletion cost of a pod that a surge has lowered: there is none below.
	LowestCost = "-2147483648"
)

// CostToRestore returns the deletion cost that a marked pod has once its mark goes: what it was before the mark, or what
// was set since. "" is none.
func (p *Pod) CostToRestore() string {
	if p.DeletionCost != LowestCost {
		return p.DeletionCost
	}
	_, former, _ := strings.Cut(p.CostMark, "=")
	return former
}

// Drainer identifies a drain, so that two drains notice each other and a killed one is distinguished from a live one.
type Drainer struct {
	ID    string    `json:"id"`              // random, one per run
	By    string    `json:"by"`              // user@host
	PID   int       `json:"pid,omitempty"`   // on that host
	Boot  string    `json:"boot,omitempty"`  // start of that process, as the host counts it
	Beat  time.Time `json:"beat"`            // last sign of life; of a drain with a Lease, when the record was written
	Lease bool      `json:"lease,omitempty"` // later signs of life are in the drain's Lease
}

// MaintenancePrefix begins the id of every drain that NodeMaintenances run. Those of other drains have no hyphen.
const MaintenancePrefix = "maintenance-"

// OfMaintenance reports whether NodeMaintenances run the drain.
func (d Drainer) OfMaintenance() bool { return strings.HasPrefix(d.ID, MaintenancePrefix) }

// BeatEvery is how often a running drain renews its sign of life, LiveFor how long
// one sign counts. Three beats may be lost.
const (
	BeatEvery = 15 * time.Second
	LiveFor   = 60 * time.Second
)

// LiveAt reports whether the drain may still be running by what the record itself says.
func (d Drainer) LiveAt(now time.Time) bool { return now.Before(Believed(d.Beat, now).Add(LiveFor)) }

// Believed returns a time that was read from an annotation, or the zero time where it
// lies more than LiveFor ahead of now. A client that may write the annotation may write any
// time: one from the future would never be over. The clocks of API servers, by which
// drains go, differ by less.
func Believed(claimed, now time.Time) time.Time {
	if claimed.After(now.Add(LiveFor)) {
		return time.Time{}
	}
	return claimed
}

// ParseMarks reads the words of a MarksAnnotation.
func ParseMarks(written string) []string {
	if written == "" {
		return nil
	}
	return strings.FieldsFunc(written, func(r rune) bool { return r == ',' || r == ' ' })
}

// DrainRecord is what a drain writes on a node.
type DrainRecord struct {
	Drainer
	Why        string    `json:"why,omitempty"`
	Since      time.Time `json:"since"`               // when this drain began
	Cordoned   bool      `json:"cordoned"`            // a drain made it unschedulable; false: it was so before
	CordonTime time.Time `json:"cordonTime,omitzero"` // when the first drain did, of those that followed each other; zero: at Since
	State      string    `json:"state"`               // draining, drained, blocked, deadline, timeout, interrupted
}

// Draining is the state of a record whose drain works on the node.
const Draining = "draining"

// Drained is the state of a record whose drain has drained the node.
const Drained = "drained"

// Working reports whether the drain works on the node, as far as the record says.
func (r *DrainRecord) Working() bool { return r.State == Draining }

// CordonedSince returns since when the node is cordoned by drains. A drain that finds the
// cordon of another one keeps it, and so its time.
func (r *DrainRecord) CordonedSince() time.Time {
	if r.CordonTime.IsZero() {
		return r.Since
	}
	return r.CordonTime
}

// SurgeRecord is what a surge writes on what it scaled.
type SurgeRecord struct {
	Drainer
	Was   int32     `json:"was"`            // replicas (Deployment) or minReplicas (autoscaler) before
	To    int32     `json:"to"`             // what the surge last set
	Base  int32     `json:"base,omitempty"` // on an autoscaler: the Deployment's replicas before
	Since time.Time `json:"since"`
	Step  time.Time `json:"step"` // when To was last changed
	// For are the UIDs of the pods for which the manager surges: it is over when the last of them is. A drain has none.
	For []types.UID `json:"for,omitempty"`
}

// ManagerID is the id of the records of surges by the manager. They are prepared and taken back for pods that policies govern.
const ManagerID = "manager"

// ParseDrainRecord reads a record; it returns nil, nil for "".
func ParseDrainRecord(annotation string) (*DrainRecord, error) {
	r, err := parse(annotation, func(r *DrainRecord) bool { return r.plain() })
	if r != nil {
		r.Why, r.State = text.Line(r.Why), text.Line(r.State)
	}
	return r, err
}

// ParseSurgeRecord reads a record; it returns nil, nil for "".
func ParseSurgeRecord(annotation string) (*SurgeRecord, error) {
	return parse(annotation, func(r *SurgeRecord) bool { return r.plain() && r.Was >= 0 && r.To >= r.Was })
}

// plain cleans the words of a record, which are printed, and reports whether its id can be: it is compared as it is.
func (d *Drainer) plain() bool {
	d.By, d.Boot = text.Line(d.By), text.Line(d.Boot)
	return d.ID != "" && text.Printable(d.ID)
}

func parse[T any](annotation string, valid func(*T) bool) (*T, error) {
	if annotation == "" {
		return nil, nil
	}
	record := new(T)
	if err := json.Unmarshal([]byte(annotation), record); err != nil {
		return nil, fmt.Errorf("reading usher's record: %w", err)
	}
	if !valid(record) {
		return nil, errors.New("reading usher's record: a field is missing or out of range")
	}
	return record, nil
}

// Encode returns the record as it is written.
func (r *DrainRecord) Encode() (string, error) { return encode(r) }

// Encode returns the record as it is written.
func (r *SurgeRecord) Encode() (string, error) { return encode(r) }

func encode[T any](record *T) (string, error) {
	body, err := json.Marshal(record)
	if err != nil {
		return "", fmt.Errorf("writing usher's record: %w", err)
	}
	return string(body), nil
}

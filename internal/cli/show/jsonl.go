package show

import (
	"encoding/json"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// JSON reports one event a line. docs/output.md is its contract.
type JSON struct {
	enc  *json.Encoder
	uids map[snapshot.Key]types.UID
}

// NewJSON reports to out.
func NewJSON(out io.Writer) *JSON {
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	return &JSON{enc: enc, uids: map[snapshot.Key]types.UID{}}
}

// Know remembers the UIDs of pods, for events that only name them.
func (j *JSON) Know(pods []*snapshot.Pod) {
	for _, p := range pods {
		j.uids[p.Key()] = p.UID
	}
}

// Frame prints nothing; it learns the UIDs of pods.
func (j *JSON) Frame(_ time.Time, d drain.Decision) {
	for i := range d.Pods {
		j.uids[d.Pods[i].Pod.Key()] = d.Pods[i].Pod.UID
	}
}

// Event prints one line. The end is not printed: End prints it with its summary.
func (j *JSON) Event(e drain.Event) {
	if e.Kind == drain.EventEnd {
		return
	}
	line := eventJSON{
		Type: string(e.Kind), Time: e.At.UTC(), Node: e.Node, State: e.State,
		Message: e.Message, Outcome: string(e.Outcome), Pod: j.podJSON(e.Pod),
	}
	if e.Blocker != nil {
		b := newBlockerJSON(*e.Blocker)
		line.Blocker, line.Message = &b, ""
		if line.Pod == nil {
			line.Pod = j.podJSON(e.Blocker.Pod)
		}
		if line.Node == "" {
			line.Node = e.Blocker.Node
		}
	}
	j.enc.Encode(line) //nolint:errcheck,errchkjson // a drain goes on without its output
}

// End prints the last line of a drain.
func (j *JSON) End(at time.Time, s Summary) {
	j.enc.Encode(endJSON{Type: string(drain.EventEnd), Time: at.UTC(), Outcome: string(s.Outcome), Summary: newSummaryJSON(s)}) //nolint:errcheck,errchkjson // as above
}

func (j *JSON) podJSON(key snapshot.Key) *podJSON {
	if key.Name == "" {
		return nil
	}
	return &podJSON{Namespace: key.Namespace, Name: key.Name, UID: string(j.uids[key])}
}

type eventJSON struct {
	Type    string       `json:"type"`
	Time    time.Time    `json:"time"`
	Node    string       `json:"node,omitempty"`
	Pod     *podJSON     `json:"pod,omitempty"`
	State   string       `json:"state,omitempty"`
	Message string       `json:"message,omitempty"`
	Blocker *blockerJSON `json:"blocker,omitempty"`
	Outcome string       `json:"outcome,omitempty"`
}

type endJSON struct {
	Type    string      `json:"type"`
	Time    time.Time   `json:"time"`
	Outcome string      `json:"outcome"`
	Summary summaryJSON `json:"summary"`
}

type podJSON struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`
}

// blockerJSON is a blocker as programs see it.
type blockerJSON struct {
	Reason    string     `json:"reason"`
	Namespace string     `json:"namespace,omitempty"`
	Pod       string     `json:"pod,omitempty"`
	Node      string     `json:"node,omitempty"`
	Message   string     `json:"message"`
	Remedy    string     `json:"remedy,omitempty"`
	Since     *time.Time `json:"since,omitempty"`
	Retry     *time.Time `json:"retry,omitempty"`
	Dead      bool       `json:"dead"`
}

// newBlockerJSON converts a blocker.
func newBlockerJSON(b drain.Blocker) blockerJSON {
	return blockerJSON{
		Reason: string(b.Reason), Namespace: b.Pod.Namespace, Pod: b.Pod.Name, Node: b.Node,
		Message: b.Message, Remedy: b.Remedy, Since: timeOrNil(b.Since), Retry: timeOrNil(b.Retry), Dead: b.Dead,
	}
}

func blockersJSON(all []drain.Blocker) []blockerJSON {
	list := make([]blockerJSON, 0, len(all))
	for _, b := range all {
		list = append(list, newBlockerJSON(b))
	}
	return list
}

func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

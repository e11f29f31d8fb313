package notice

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/text"
)

// Alert is an alert as Alertmanager and Prometheus send it.
type Alert struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	StartsAt    time.Time         `json:"startsAt"`
	EndsAt      time.Time         `json:"endsAt"`
	Status      string            `json:"status"` // firing or resolved, "" where EndsAt says it
}

// Alerts are those of one request.
type Alerts struct {
	All []Alert
	// Truncated is how many Alertmanager has left out.
	Truncated int
}

// mostAlerts is how many alerts one request may have.
const mostAlerts = 1000

// ParseAlerts reads the body of a request: the object that Alertmanager's webhook receiver sends, version 4, or the plain array that Prometheus sends.
func ParseAlerts(body []byte) (Alerts, error) {
	var found Alerts
	var err error
	body = bytes.TrimSpace(body)
	switch {
	case len(body) == 0:
		return found, errors.New("the body is empty: send the object of Alertmanager's webhook, or an array of alerts")
	case body[0] == '[':
		err = json.Unmarshal(body, &found.All)
	default:
		var sent struct {
			Version         string  `json:"version"`
			TruncatedAlerts int     `json:"truncatedAlerts"`
			Alerts          []Alert `json:"alerts"`
		}
		err = json.Unmarshal(body, &sent)
		found = Alerts{All: sent.Alerts, Truncated: sent.TruncatedAlerts}
		if err == nil && sent.Version != "4" {
			err = fmt.Errorf("version is %q, and this knows 4", text.Cut(sent.Version, mostName))
		}
	}
	switch {
	case err != nil:
		return Alerts{}, fmt.Errorf("the body is neither the object of Alertmanager's webhook nor an array of alerts: %s", text.Cut(text.Line(err.Error()), 300))
	case len(found.All) == 0:
		return Alerts{}, errors.New("the body has no alerts")
	case len(found.All) > mostAlerts:
		return Alerts{}, fmt.Errorf("the body has %d alerts, and may have %d: set max_alerts of the receiver", len(found.All), mostAlerts)
	}
	return found, nil
}

// Resolved reports whether an alert does not fire any more.
func (a *Alert) Resolved(now time.Time) bool {
	return a.Status == "resolved" || a.Status == "" && !a.EndsAt.IsZero() && !a.EndsAt.After(now)
}

// Event identifies an alert: by its labels and when it began, as Alertmanager does. One that fires anew is another event.
func (a *Alert) Event() string {
	words := make([]string, 0, 2*len(a.Labels))
	for _, label := range sortedKeys(a.Labels) {
		words = append(words, label, a.Labels[label])
	}
	id := digest(words...)
	if name := text.Cut(text.Line(a.Labels["alertname"]), 100); name != "" {
		id = name + "/" + id
	}
	if !a.StartsAt.IsZero() {
		id += "@" + a.StartsAt.UTC().Format(time.RFC3339Nano)
	}
	return id
}

// ByAlert returns the notice of an alert that fires, by the first rule that matches it; nil where none does. An error says why its node is not known.
func (c *Config) ByAlert(a *Alert, nodes []Node) (*Reported, error) {
	for i := range c.Rules {
		r := &c.Rules[i]
		if r.Alert == nil || !r.Alert.matches(a.Labels) {
			continue
		}
		node, err := nodeOf(a, r, nodes)
		if err != nil {
			return nil, err
		}
		n := Notice{Source: Alertmanager, Kind: r.Kind, Event: a.Event(), Node: node.Name, Message: a.message()}
		if r.EffectiveAfter > 0 && !a.StartsAt.IsZero() {
			n.EffectiveTime = a.StartsAt.Add(r.EffectiveAfter)
		}
		if a.Status == "" {
			n.EndTime = a.EndsAt // Prometheus sends it again before
		}
		return &Reported{n, r}, nil
	}
	return nil, nil
}

// ByResolved returns the withdrawals of what an alert has led to, whichever rule that was by.
func ByResolved(a *Alert, all []*v1alpha1.NodeMaintenance) []Reported {
	var found []Reported
	event := a.Event()
	for _, m := range all {
		if n, is := noticeOf(m); is && n.Source == Alertmanager && n.Event == event {
			n.Withdrawn = true
			found = append(found, Reported{Notice: n})
		}
	}
	return found
}

func (r *AlertRule) matches(labels map[string]string) bool {
	for i := range r.Matchers {
		if !r.Matchers[i].matches(labels[r.Matchers[i].Label]) {
			return false
		}
	}
	return true
}

// message is what an alert says of itself.
func (a *Alert) message() string {
	return cmp.Or(a.Annotations["summary"], a.Annotations["description"], a.Annotations["message"], a.Labels["alertname"])
}

// nodeOf finds the node that an alert is about: its label has the node's name, its host name, with a port or without, or the last part of its providerID,
// which is what many clouds call an instance.
func nodeOf(a *Alert, r *Rule, nodes []Node) (*Node, error) {
	value := a.Labels[r.Alert.NodeLabel]
	if value == "" {
		return nil, fmt.Errorf("alert %s has no label %s, by which rule %s finds its node", text.Name(a.Labels["alertname"]), r.Alert.NodeLabel, r.Name)
	}
	host, _, _ := strings.Cut(value, ":")
	for _, is := range []func(*Node) bool{
		func(n *Node) bool { return n.Name == value },
		func(n *Node) bool { return n.Name == host || n.Hostname == host },
		func(n *Node) bool {
			return n.ProviderID != "" && n.ProviderID[strings.LastIndex(n.ProviderID, "/")+1:] == value
		},
	} {
		var found []*Node
		for i := range nodes {
			if is(&nodes[i]) {
				found = append(found, &nodes[i])
			}
		}
		switch len(found) {
		case 0:
			continue
		case 1:
			return found[0], nil
		}
		return nil, fmt.Errorf("alert %s is about %s=%s, which %d nodes are called, %s and %s among them", text.Name(a.Labels["alertname"]),
			r.Alert.NodeLabel, text.Name(value), len(found), found[0].Name, found[1].Name)
	}
	words := fmt.Sprintf("alert %s is about %s=%s, and no node has that name, host name or provider id", text.Name(a.Labels["alertname"]), r.Alert.NodeLabel, text.Name(value))
	return nil, &UnknownNodeError{host, words}
}

// UnknownNodeError is that an alert names a node that there is not.
type UnknownNodeError struct {
	Node string // its name, if it is one
	text string
}

// Error implements error.
func (e *UnknownNodeError) Error() string { return e.text }

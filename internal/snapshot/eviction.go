package snapshot

import (
	"cmp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
)

// Request is an EvictionRequest: a requester wants a pod gone.
type Request struct {
	Namespace       string
	Name            string
	UID             types.UID
	ResourceVersion string
	PodUID          types.UID
	Requester       string // domain-prefixed: drain.usher.sh/<drain id>
	Created         time.Time
	Withdrawn       bool   // its intent is no longer an eviction, or it is being deleted
	Deleted         bool   // it is being deleted: nothing of it is left to undo, however long a finalizer keeps it
	Ended           bool   // the pod was evicted, or the request has failed
	Failed          string // why it comes to nothing; "" while it may come to something
}

// Key returns namespace and name.
func (r *Request) Key() Key { return Key{Namespace: r.Namespace, Name: r.Name} }

// drainRequester is the domain of the requesters that drains are.
const drainRequester = "drain.usher.sh/"

// RequesterOf returns the name under which a drain asks for evictions.
func RequesterOf(drain string) string { return drainRequester + drain }

// Drainer returns the drain that asks, false where no drain does. That it asked is a sign
// of its life.
func (r *Request) Drainer() (Drainer, bool) {
	id, found := strings.CutPrefix(r.Requester, drainRequester)
	return Drainer{ID: id, Beat: r.Created}, found && id != ""
}

// Eviction is what becomes of the requests for one pod.
type Eviction struct {
	Namespace       string
	Name            string
	UID             types.UID
	ResourceVersion string
	PodUID          types.UID
	Created         time.Time
	Ended           bool      // a condition says that it is over, one way or the other
	Responder       string    // the responder that works on it, "" if none does
	Message         string    // that responder's words
	Since           time.Time // when that responder began
	Expected        time.Time // when it expects to be done; zero: not known
	Emptied         bool      // by Usher's word the pod stays, and carries nothing any more
}

// Key returns namespace and name.
func (e *Eviction) Key() Key { return Key{Namespace: e.Namespace, Name: e.Name} }

// Policy returns the name of the policy that governs the pod, "" where none does.
func (p *Pod) Policy() string { return p.Labels[v1alpha1.PolicyLabel] }

// Labelled reports whether the pod carries the label of governed pods, whatever its value.
func (p *Pod) Labelled() bool {
	_, labelled := p.Labels[v1alpha1.PolicyLabel]
	return labelled
}

// Audited reports whether the pod carries the label of pods that policies in mode Audit claim. None of them keeps it.
func (p *Pod) Audited() bool {
	_, audited := p.Labels[v1alpha1.AuditLabel]
	return audited
}

// SetRequest adds or replaces a request.
func (c *Cluster) SetRequest(r *Request) { c.requests[r.Key()] = r }

// Request returns a request, or nil.
func (c *Cluster) Request(key Key) *Request { return c.requests[key] }

// DeleteRequest forgets a request.
func (c *Cluster) DeleteRequest(key Key) { delete(c.requests, key) }

// Requests returns all requests, sorted by namespace and name.
func (c *Cluster) Requests() []*Request {
	return sortedBy(c.requests, func(a, b *Request) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}

// RequestBy returns what this requester asks for the pod, or nil: of several one that stands, before one that was withdrawn, and one of
// these before one that is being deleted. Anyone who may create requests can name any requester.
func (c *Cluster) RequestBy(requester string, pod *Pod) *Request {
	var found *Request
	for _, r := range c.requests {
		if r.PodUID != pod.UID || r.Namespace != pod.Namespace || r.Requester != requester {
			continue
		}
		if found == nil || r.compare(found) < 0 {
			found = r
		}
	}
	return found
}

// compare orders requests by how much they stand for, and by name.
func (r *Request) compare(other *Request) int {
	return cmp.Or(btoi(r.Deleted)-btoi(other.Deleted), btoi(r.Withdrawn)-btoi(other.Withdrawn), cmp.Compare(r.Name, other.Name))
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// SetEviction adds or replaces an eviction.
func (c *Cluster) SetEviction(e *Eviction) { c.evictions[e.Key()] = e }

// Eviction returns an eviction, or nil.
func (c *Cluster) Eviction(key Key) *Eviction { return c.evictions[key] }

// DeleteEviction forgets an eviction.
func (c *Cluster) DeleteEviction(key Key) { delete(c.evictions, key) }

// EvictionOf returns the eviction of a pod that is under way, or nil.
func (c *Cluster) EvictionOf(pod *Pod) *Eviction {
	var oldest *Eviction
	for _, e := range c.evictions {
		if e.PodUID != pod.UID || e.Namespace != pod.Namespace || e.Ended {
			continue
		}
		if oldest == nil || e.Created.Before(oldest.Created) {
			oldest = e
		}
	}
	return oldest
}

// Package system answers: what must a system be able to do so that Usher can look after its members?
//
// A system is a folder below this one with a Kind: its facts, its roles and how to open it. Adding one touches its folder,
// the list in package all, and a field of the EvictionPolicy.
package system

import (
	"context"
	"crypto/tls"
	"errors"
	"io/fs"
	"net/http"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/snapshot"
)

// System is the port to one database or service. Its methods may be called by several goroutines at once.
type System interface {
	// Observe asks the system about itself and the members. Facts that it cannot find out are left out, not guessed. An
	// error means that nothing can be said; it is shown to people, and names the endpoint and what is wrong. Epoch and
	// Observed are set by the caller.
	Observe(ctx context.Context, members []Member) (*eviction.Evidence, error)
	// Prepare asks for a step. It is called again and again until the step's effect shows in the evidence, and must not
	// start it a second time where it is under way. No error means that the system has taken it. The job is what the system
	// knows the work by, as far as it tells; the next calls for the step get it back as step.Job.
	Prepare(ctx context.Context, step eviction.Preparation) (eviction.Job, error)
	// Undo takes a step back: cancels it where it is under way, reverses it where it is done and can be reversed. Where a
	// system knows work by jobs it touches only the step's own (step.Job.Own) and tells of any other that it leaves. It is
	// called again until it is Done.
	Undo(ctx context.Context, step eviction.Preparation) (eviction.Undone, error)
	// Close lets go of connections.
	Close()
}

// Member is a pod as its system knows it.
type Member struct {
	ID   string
	Role string
	Pod  *snapshot.Pod
}

// ErrTerminal is wrapped by errors of Prepare and Undo that will not go away by asking again: the system has refused, and
// a person must look.
var ErrTerminal = errors.New("refused by the system")

// Kind is one kind of system.
type Kind struct {
	// Name is the field of spec.system.
	Name string
	// Schema declares the facts.
	Schema eviction.Schema
	// Steps are what roles may name in evict.prepare, with a sentence each.
	Steps map[string]string
	// Roles holds the built-in roles, one v1alpha1.Role in each *.yaml in its root.
	Roles fs.FS
	// Open makes a System from a policy's spec. It does not connect.
	Open func(spec *v1alpha1.System, access Access) (System, error)
}

// Access is what a policy's spec refers to, resolved.
type Access struct {
	// Endpoints are URLs, at least one.
	Endpoints []string
	// TLS is the client's configuration, nil for the default.
	TLS *tls.Config
	// Secrets are the values that the spec refers to.
	Secrets map[v1alpha1.SecretKey][]byte
	// Timeout is how long one call may take.
	Timeout time.Duration
	// Loopback lets connections go to the machine itself. Beside a cluster systems may listen there; in a pod it is Usher.
	Loopback bool
	// Transport carries HTTP, nil for one that is made of the rest. Simulators and fault injection stand behind it.
	Transport http.RoundTripper
}

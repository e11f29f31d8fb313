// Package system answers: what must a system be able to do so that Usher can look after its members?
//
// A system is a folder below this one with a Kind: its facts, its roles, what a policy's spec refers to, and how to open it.
// Adding one touches its folder, a line of the list in package all, and the field of spec.system that declares it.
package system

import (
	"context"
	"crypto/tls"
	"errors"
	"io/fs"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/expression"
	"usher.sh/usher/internal/memberset"
	"usher.sh/usher/internal/replacement"
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
	// knows the work by, if it returns one; the next calls for the step get it back as step.Job, without its Progress.
	Prepare(ctx context.Context, step eviction.Preparation) (eviction.Job, error)
	// Undo takes a step back: cancels it where it is under way, reverses it where it is done and can be reversed. Where a
	// system knows work by jobs it touches only the step's own (step.Job.Own) and reports any other that it leaves. It is
	// called again until it is Done; with an error, Undone.Retry may say when that makes sense.
	Undo(ctx context.Context, step eviction.Preparation) (eviction.Undone, error)
	// Close lets go of connections.
	Close()
}

// Membership is implemented beside System by systems with a list of members that is changed by asking for it when one is replaced. Its methods
// are idempotent, and ask for at most one change of the list. The member is the one that is replaced, with the pod that has its name.
type Membership interface {
	// Listed says what the list has for a member, and of the predecessor that was written down for it; nil: none was yet. The answer is one
	// that the system vouches for as a whole. An error means that it is not known.
	Listed(ctx context.Context, member Member, predecessor *v1alpha1.MemberRegistration) (Listing, error)
	// Leave takes an entry off the list. It returns what that waits for; "": it is off. It refuses what could cost the system data or its
	// quorum, whoever asks, and to take off a member that answers.
	Leave(ctx context.Context, member Member, entry *v1alpha1.MemberRegistration) (missing string, err error)
	// Join puts the successor of a predecessor that has left on the list, and gives it its part there once it can take it. It returns what is
	// still missing; "": nothing.
	Join(ctx context.Context, member Member, predecessor *v1alpha1.MemberRegistration) (missing string, err error)
}

// Resizable is implemented beside System by systems that take in members under ids of their own and let them go again, where a MemberSet runs them. Its methods
// are idempotent, and ask for at most one change of the list.
type Resizable interface {
	// List reads the list of members as one that the system vouches for as a whole. An error means that it is not known.
	List(ctx context.Context) (memberset.Listing, error)
	// Admit puts a member on the list of a cluster at its addresses, and gives it its whole part once it can take it. It returns what is still
	// missing; "": nothing.
	Admit(ctx context.Context, cluster string, addresses []string) (missing string, err error)
	// Expel takes an entry off the list, also of a member that runs. It returns what that waits for; "": it is off. It refuses what could cost the
	// system data or its quorum, whoever asks.
	Expel(ctx context.Context, entry *v1alpha1.MemberRegistration) (missing string, err error)
}

// Resumer is implemented beside System by systems that learn something by having been asked for some time.
type Resumer interface {
	// Resume takes over what the system that was open before has learned, as far as it holds for this one. It is called before anything else.
	Resume(before System)
}

// Emptying is implemented beside System by systems whose members are emptied before they go, where a MemberSet runs them, which forms them as well. Its methods
// are idempotent, and return what is still missing for what was asked; "": nothing.
type Emptying interface {
	// Contents says what there is of all members of a set, and what the system is found by. An error means that it is not known. It wraps ErrNotFormed where the
	// system itself says that there is none yet, and Form would have these members begin it.
	Contents(ctx context.Context, members []Member) (memberset.Listing, error)
	// Form has these members, which are the first, begin the system. It does nothing where there is one, or where that is not known.
	Form(ctx context.Context, members []Member) (missing string, err error)
	// Lead has members by which the system is found take the place of those that cannot be reached.
	Lead(ctx context.Context) (missing string, err error)
	// Empty has what a member has be moved to others. It refuses what could cost the system data, whoever asks.
	Empty(ctx context.Context, member Member) (missing string, err error)
	// Refill takes back what Empty has asked for, also of a member that is gone.
	Refill(ctx context.Context, member Member) (missing string, err error)
	// Maintain has the system wait for what is in a zone instead of making it anew elsewhere, until EndMaintenance or until the time is over. It refuses where
	// that would conceal what is missing, and where another zone is under maintenance.
	Maintain(ctx context.Context, zone string, timeout time.Duration) (missing string, err error)
	// EndMaintenance has it wait for that zone no more, once what came back there keeps up with the others.
	EndMaintenance(ctx context.Context, zone string) (missing string, err error)
}

// Listing is what a system's list of members says of one member.
type Listing struct {
	// Member is the entry under the member's id; nil: there is none.
	Member *v1alpha1.MemberRegistration
	// Failed: the system says that the one of Member has failed; another may be at its address.
	Failed bool
	// Predecessor: the one that was written down is on the list.
	Predecessor bool
	// Successor is the entry that has taken the predecessor's place; nil: none has. Joined: it has its whole part there.
	Successor *v1alpha1.MemberRegistration
	Joined    bool
}

// Member is a member of a policy. Its Pod is nil where it has none.
type Member struct {
	v1alpha1.MemberRef

	Pod *snapshot.Pod
	// Address is the IP at which others reach it; "": that of its pod, or it is not known.
	Address string
	// Removed: its MemberSet has removed it, and nothing is left of it but what its system remembers.
	Removed bool
	// Joining: its MemberSet has not seen it do its work, with all of its processes, yet.
	Joining bool
	// Processes is how many its MemberSet has it run; 0: that is not known.
	Processes int
	// Leaves: it is to be replaced or removed, or its pod made anew, so nothing new is to be put on it.
	Leaves bool
	// Emptied: its MemberSet has the system keep nothing on it, and takes that back itself where the member stays.
	Emptied bool
}

// ErrNotFormed is wrapped by errors of Contents.
var ErrNotFormed = errors.New("it is not formed yet")

// ErrOtherSystem is wrapped by errors of Membership where another system answers than the one whose list an entry was of: one that was restored from a
// snapshot, say.
var ErrOtherSystem = errors.New("another system answers")

// ErrTerminal is wrapped by errors of Prepare and Undo that will not go away by asking again: the system has refused, and
// a person must look.
var ErrTerminal = errors.New("refused by the system")

// Final reports whether an answer with this HTTP status will be the same when it is asked for again, so that a step ends with
// ErrTerminal. Not final is what says that something is not there, not so yet, elsewhere, or busy: all of that may pass.
func Final(status int) bool {
	switch status {
	case http.StatusNotFound, http.StatusRequestTimeout, http.StatusConflict, http.StatusPreconditionFailed, http.StatusMisdirectedRequest,
		http.StatusLocked, http.StatusFailedDependency, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	case http.StatusNotImplemented:
		return true
	}
	return status >= http.StatusBadRequest && status < http.StatusInternalServerError
}

// Kind is one kind of system.
type Kind struct {
	// Name is the field of spec.system.
	Name string
	// Declared reports whether a policy's spec declares a system of this kind: whether the field is set.
	Declared func(spec *v1alpha1.System) bool
	// Hosts says that ids are those of hosts, so that members of several roles have the same one. Observe gets each of them, and says of an id what is
	// asked for any of its roles.
	Hosts bool
	// Schema declares the facts.
	Schema expression.Schema
	// Steps are what roles may name in evict.prepare and in lost.prepare, with a sentence each. ForLost are those of them that may be named in lost.prepare alone,
	// since they presume that the node is off.
	Steps   map[string]string
	ForLost []string
	// Same says whether two specs of policies mean one system, so that what was begun by the one can be taken back by the other; nil: they always do.
	Same func(before, after *v1alpha1.System) bool
	// Extend adds what the spec itself declares; nil: it declares nothing.
	Extend func(declaration *eviction.Declaration, spec *v1alpha1.System)
	// Roles holds the built-in roles, one v1alpha1.Role in each *.yaml in its root.
	Roles fs.FS
	// References are what the spec refers to; nil: nothing.
	References func(spec *v1alpha1.System) References
	// Reports says by ReportFacts, which are among the facts about a member, whether it does its work; known is false where they do not tell.
	// nil: a member that the system has facts about does.
	Reports     func(facts expression.Facts) (does, known bool)
	ReportFacts []string
	// Excluded says, by ReportFacts as well, whether the system was asked to keep nothing on a member, or on one of its processes, and whether by now it keeps
	// nothing on any of them; known is false where they do not tell. nil: systems of this kind exclude nothing.
	Excluded func(facts expression.Facts) (excluded, emptied, known bool)
	// Maintained says by SystemFacts, which are among the facts about the system, which of its zones is under maintenance, in which it waits for what is missing; "": none, or they do not tell.
	// nil: systems of this kind know no such thing.
	Maintained  func(facts expression.Facts) string
	SystemFacts []string
	// Succession says how a member of a system with this spec is followed by its successor; nil: systems of this kind are not asked for that.
	Succession func(spec *v1alpha1.System) Succession
	// Keeps says why a pod of this template would not come back under its predecessor's id where its disk is empty, and what to do about it; "": it would.
	// nil: so it is of every template. It is asked of members whose successors have the same identity.
	Keeps func(pod *corev1.PodSpec) (refusal, remedy string)
	// Set is how a MemberSet runs the system's members; nil: none does. Where it has the system keep a list, the System implements Resizable;
	// where members are emptied, Emptying.
	Set *memberset.Kind
	// Open makes a System from a policy's spec. It does not connect.
	Open func(spec *v1alpha1.System, access Access) (System, error)
}

// Succession is how a member is followed by its successor.
type Succession struct {
	// Order is when one leaves and the other joins, of a system that implements Membership; "": it is not asked for that.
	Order replacement.Order
	// Refuses says why a pod of this template would not join as the successor of another member, and what to do about it; "": it would. nil:
	// any would.
	Refuses func(pod *corev1.PodSpec) (refusal, remedy string)
}

// Of returns the kind of system that a policy's spec declares, if it declares exactly one.
func Of(kinds []Kind, spec *v1alpha1.System) (Kind, bool) {
	var found []Kind
	for _, k := range kinds {
		if k.Declared(spec) {
			found = append(found, k)
		}
	}
	if len(found) != 1 {
		return Kind{}, false
	}
	return found[0], true
}

// Declaration returns what the kind brings to a policy with this spec.
func (k Kind) Declaration(spec *v1alpha1.System) eviction.Declaration {
	declaration := eviction.Declaration{Kind: k.Name, Hosts: k.Hosts, Schema: k.Schema, Steps: k.Steps, ForLost: k.ForLost}
	if k.Extend != nil {
		k.Extend(&declaration, spec)
	}
	return declaration
}

// ReferencesOf returns what the spec refers to.
func (k Kind) ReferencesOf(spec *v1alpha1.System) References {
	if k.References == nil {
		return References{}
	}
	return k.References(spec)
}

// SuccessionOf returns how a member of a system with this spec is followed by its successor.
func (k Kind) SuccessionOf(spec *v1alpha1.System) Succession {
	if k.Succession == nil {
		return Succession{}
	}
	return k.Succession(spec)
}

// References are what a policy's spec refers to outside of itself.
type References struct {
	// Access leads to the system; nil for a kind that has another way.
	Access *v1alpha1.Access
	// Endpoints are URLs of the system that stand beside Access.
	Endpoints []string
	// Secrets are entries of Secrets in the policy's namespace, beside those of Access.
	Secrets []v1alpha1.SecretKey
	// ConfigMaps are entries of ConfigMaps in the policy's namespace.
	ConfigMaps []v1alpha1.ConfigMapKey
	// Workloads says that the kind reads and scales workloads.
	Workloads bool
}

// Access is what a policy's spec refers to, resolved.
type Access struct {
	// Namespace is that of the policy. What all share is handed out by it.
	Namespace string
	// Name is the policy's, or the MemberSet's.
	Name string
	// Endpoints are the URLs that References.Access has or its Service stands for; none where it is nil.
	Endpoints []string
	// TLS is the client's configuration, nil for the default.
	TLS *tls.Config
	// Secrets are the values that the spec refers to.
	Secrets map[v1alpha1.SecretKey][]byte
	// ConfigMaps are the texts that the spec refers to.
	ConfigMaps map[v1alpha1.ConfigMapKey]string
	// FDBCLI is the path of FoundationDB's fdbcli; "": Usher runs without.
	FDBCLI string
	// Timeout is how long one call may take.
	Timeout time.Duration
	// Loopback lets connections go to the machine itself. Beside a cluster systems may listen there; in a pod it is Usher.
	Loopback bool
	// Transport carries HTTP, nil for one that is made of the rest. Simulators and fault injection stand behind it.
	Transport http.RoundTripper
	// Workloads is the Kubernetes API, for a kind whose members are plain workloads; nil where Usher runs without.
	Workloads Workloads
}

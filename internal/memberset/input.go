package memberset

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
)

// Input is everything that a decision about one set looks at.
type Input struct {
	Now time.Time
	// Set is the set, with what was written down of its members.
	Set  *v1alpha1.MemberSet
	Kind Kind
	// Pods, Claims and Services are those that carry the set's label.
	Pods     []Pod
	Claims   []Claim
	Services []Service
	// Requests are those for members of the set's policy.
	Requests []Request
	// Nodes are, by group, the names of the nodes on which a group with a member for each node has one.
	Nodes map[string][]string
	// Policy is the one of the set's name; nil: there is none.
	Policy *Policy
	// File is the ConfigMap with the file by which the system is found; nil: there is none.
	File *File
	// List is the system's list of members, where the kind has one, or what it says of them where they are emptied.
	List Listing
	// Unread are blockers for what could not be read, and for what the set's policy would be wrong in. Nothing is made or removed while there are any.
	Unread []Blocker
}

// Kind is how members of a system are started, and taken into it.
type Kind struct {
	// Name is that of the system's kind.
	Name string
	// Lists: the system has a list of members that is changed by asking for it. LostFirst: it takes none in while one that has its whole part is lost.
	Lists, LostFirst bool
	// Empties: members are emptied before they go. What the system says of them is its list, which is changed by nothing but that.
	Empties bool
	// File is the file by which the system is found; nil: it has none.
	File *FileKind
	// AddressFrom is whose address members are reached at: one of these, the first where a group does not say. None: members are not reached by others.
	AddressFrom []v1alpha1.AddressSource
	// Ports are those of the Service that a member has whose address is that of a Service, by how many processes its pod has; nil: none has.
	Ports func(processes int32) []corev1.ServicePort
	// Several: a pod may have more than one process of the system.
	Several bool
	// Configured: a pod's processes are those that the configuration says which Environment gives it, and may be none.
	Configured bool
	// Replaced are the roles whose members are replaced where their pod template changes, unless the set says otherwise.
	Replaced []string
	// Maintains reports whether the system can wait for members of a group while their zone is under maintenance; nil: it knows no such thing.
	Maintains func(group *v1alpha1.MemberGroup) bool
	// Addresses are where other members reach one; nil: the kind has none.
	Addresses func(template *corev1.PodSpec, id, namespace string) []string
	// Environment is what the first container of a member's pod gets; nil: nothing.
	Environment func(template *corev1.PodSpec, system *v1alpha1.System, start *Start) []corev1.EnvVar
	// Accepts says why members of a group cannot be run; nil: those of any can.
	Accepts func(system *v1alpha1.System, group *v1alpha1.MemberGroup) error
	// Refuses says what a template may not tell a member, since Usher does, or since it would begin another system; nil: nothing.
	Refuses func(template *corev1.PodSpec) error
}

// Start is what a member gets when its pod is made.
type Start struct {
	// Set is the UID of its set.
	Set           types.UID
	Group         *v1alpha1.MemberGroup
	Namespace, ID string
	// First: it forms the system with Peers, itself among them. Else it joins these.
	First bool
	Peers []Peer
	// Processes is how many of the system its pod has.
	Processes int32
	// Address is the IP of its Service; "": it is reached at that of its pod.
	Address string
	// Empty: none of them starts.
	Empty bool
}

// Peer is a member as others reach it.
type Peer struct {
	ID        string
	Addresses []string
}

// Listing is a system's list of members, as the system vouches for it as a whole.
type Listing struct {
	// Unread is why it is not known; "": it is. Formable: the system itself says that there is none yet, and its first members are there to form it.
	Unread   string
	Formable bool
	// Cluster is the id of the list, or of the system.
	Cluster string
	Entries []Entry
	// Maintenance is of a kind with zones under maintenance.
	Maintenance Maintenance
	// File is the newest by which the system is found, Away are the IPs of those that it names and that cannot be reached. Both are of a kind with a file.
	File string
	Away []string
}

// Entry is a member in the list.
type Entry struct {
	v1alpha1.MemberRegistration

	// Name is what the member calls itself; "": it has not started yet.
	Name string
	// Whole: it has its whole part in the system, a vote, say. Healthy: it does its work now.
	Whole, Healthy bool
	// Empty: nothing is lost with it. Excluded: the system was asked to keep nothing there. Both are of a kind that empties members.
	Empty, Excluded bool
	// Processes is how many of it do their work, IPs are where, and Zone is their zone, "" where it is not known, of a kind that empties members.
	// Uptime is for how long the youngest of them has run, 0 where that is not known. Leads: the system is found by it.
	Processes int
	IPs       []string
	Zone      string
	Uptime    time.Duration
	Leads     bool
}

// Object is an object that was made for a member.
type Object struct {
	Name        string
	UID         types.UID
	Member      string // the id in its label
	Ours        bool   // the set controls it; of a claim: it was made for this set and none before of its name
	Terminating bool
	Of          string // the other MemberSet, or other controller, that it says it is of, with its kind; "": it says none
}

// Service is a member's Service.
type Service struct {
	Object

	IP string // "": it has none
}

// Pod is a member's pod.
type Pod struct {
	Object

	Version    string // its resource version
	Made       string // the hash of the template that it was made of; "": it does not say
	Node, Zone string // "": it is on none
	IP         string
	Ready      bool
	Finished   bool   // it has ended, and is not started again
	Ended      string // why, as it says itself; "": it does not
	Created    time.Time
	// Unscheduled is the scheduler's message, where it has found no node.
	Unscheduled string
	// Waiting is what a container waits for that does not start; "": none does.
	Waiting string
	// Asked: the set has asked for its eviction. Unasked is why that could not be looked up; "": it was.
	Asked   bool
	Unasked string
	// Wanted: another requester asks for its eviction. Cordoned: its node is.
	Wanted, Cordoned bool
	// OnEviction is what it says comes of that, "" where it does not say. Pinned: its volumes can be used on its node alone; nil: that is not known, and Unpinned
	// says why.
	OnEviction string
	Pinned     *bool
	Unpinned   string

	Labels, Annotations map[string]string
	Spec                *corev1.PodSpec
}

// Claim is a member's claim.
type Claim struct {
	Object

	// Volume is the PersistentVolume that it is bound to; "": none, or that is not looked at. Unbound: it is bound to none. Known: it was read, and Retained says what becomes of it.
	Made      string // the hash of the template that it was made of; "": it does not say
	Volume    string
	VolumeUID types.UID
	Known     bool
	Unbound   bool
	Retained  bool
}

// Request is a ReplacementRequest.
type Request struct {
	Name    string
	UID     types.UID
	Role    string
	Member  string
	Own     bool // the set has made it
	Deleted bool // it is being deleted
	// Over: nothing more is done for it. Removing: it has its permit, and waits for the member to go.
	Over, Removing bool
}

// Policy is the EvictionPolicy of the set's name.
type Policy struct {
	UID     types.UID
	Version string
	Ours    bool // the set controls it
	Deleted bool // it is being deleted
	Spec    v1alpha1.EvictionPolicySpec
	// Permits are the UIDs of the requests whose members it says are being replaced.
	Permits []types.UID
	// Leaving are the ids of the members whose pods it says are on their way.
	Leaving []string
	// Preparing are the ids of the members whose evictions it says are prepared, or are no more and that is taken back.
	Preparing []string
}

// Result is what follows.
type Result struct {
	// Status is what is known after the look. Where Progress, it is written and looked at again before anything is done that rests on it.
	Status   v1alpha1.MemberSetStatus
	Progress bool
	// Actions are carried out in their order. None rests on another: where one is refused, the others go on.
	Actions []Action

	decided *decision
}

// Action is one thing to do.
type Action struct {
	Kind ActionKind
	// Member is the id of the one that it is for; "": it is for the set.
	Member string
	// Name and UID are of the object that goes or is changed, Version is the pod's or the policy's.
	Name    string
	UID     types.UID
	Version string
	// Of these one is made, or tried.
	Pod       *corev1.Pod
	Claim     *corev1.PersistentVolumeClaim
	Service   *corev1.Service
	ConfigMap *corev1.ConfigMap
	Policy    *v1alpha1.EvictionPolicy
	Request   *v1alpha1.ReplacementRequest
	// Labels and Annotations are those that the pod lacks.
	Labels, Annotations map[string]string
	// Addresses are where the member that is admitted is reached. Entry is the one that leaves the list.
	Addresses []string
	Entry     *v1alpha1.MemberRegistration
	// Zone is the one under maintenance, Timeout after which time that ends by itself.
	Zone    string
	Timeout time.Duration
}

// ActionKind says what an Action does.
type ActionKind string

// The kinds.
const (
	MakePolicy     ActionKind = "makePolicy"
	ChangePolicy   ActionKind = "changePolicy"
	MakeClaim      ActionKind = "makeClaim"
	MakeService    ActionKind = "makeService"
	MakePod        ActionKind = "makePod"
	Admit          ActionKind = "admit"          // Member, Addresses: the system takes it onto its list, or gives it its whole part there
	Expel          ActionKind = "expel"          // Entry: the system takes it off its list
	Empty          ActionKind = "empty"          // Member: what it has is moved to others
	Refill         ActionKind = "refill"         // Member: the system uses it again, or forgets that it does not
	MakeFile       ActionKind = "makeFile"       // ConfigMap is made
	ChangeFile     ActionKind = "changeFile"     // Name, UID, Version: the entry of the ConfigMap becomes that of ConfigMap
	Form           ActionKind = "form"           // the first members begin the system, where there is none
	Lead           ActionKind = "lead"           // others lead to the system in the place of those that cannot be reached
	Maintain       ActionKind = "maintain"       // Zone, Timeout: the system waits for what is there
	EndMaintenance ActionKind = "endMaintenance" // Zone: it waits no more
	Mark           ActionKind = "mark"           // Request is made
	Unmark         ActionKind = "unmark"         // Name, UID: a request that the set has made is deleted
	DeletePod      ActionKind = "deletePod"      // Name, UID, Version
	EvictPod       ActionKind = "evictPod"       // Name, UID: its eviction is asked for, if the apiserver would accept Pod in its place
	TryPod         ActionKind = "tryPod"         // Name, UID: where the apiserver would not accept Pod in its place, what was asked for is taken back
	KeepPod        ActionKind = "keepPod"        // Name, UID: what was asked for is taken back
	RelabelPod     ActionKind = "relabelPod"     // Name, UID, Version, Labels, Annotations
	RetainVolume   ActionKind = "retainVolume"   // Name, UID: the reclaim policy of the PersistentVolume becomes Retain
	DeleteClaim    ActionKind = "deleteClaim"    // Name, UID
	DeleteService  ActionKind = "deleteService"  // Name, UID
)

// Blocker is one thing that a set waits for.
type Blocker struct {
	Reason  Reason
	Message string
	Remedy  string
	// Never: nothing that is only waited for helps.
	Never bool
}

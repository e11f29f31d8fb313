package v1alpha1

// Names of what Usher writes on objects for governed pods.
const (
	// PolicyLabel is on every governed pod; its value is the policy's name, cut to 63 characters. Admission of DELETE is
	// scoped by it.
	PolicyLabel = "usher.sh/policy"
	// GovernedLabel is on every namespace with a policy in mode Enforce; admission of evictions is scoped by it. Its value is
	// "true".
	GovernedLabel = "usher.sh/governed"
	// AuditLabel is on every pod that policies in mode Audit would govern; its value is made as PolicyLabel's. Auditing of
	// DELETE is scoped by it, and nothing else is.
	AuditLabel = "usher.sh/audit"
	// AuditedLabel is on every namespace with a policy in mode Audit; auditing is scoped by it. Its value is "true".
	AuditedLabel = "usher.sh/audited"
	// BreakGlassAnnotation on a pod lets every eviction and DELETE of it through. Its value is the reason, which is
	// written into events and the audit log; an empty value does not count.
	BreakGlassAnnotation = "usher.sh/break-glass"
	// TolerationsAnnotation on a pod says which tolerations Usher has set on it for its role. It is a record of Usher's own, as JSON; what it
	// says of a pod decides only about the tolerations of that pod.
	TolerationsAnnotation = "usher.sh/tolerations"
	// VerdictAnnotation on a dry-run Eviction requests the verdict instead of an eviction: "evict" or "replace". The answer
	// is always a refusal, with one cause for each blocker.
	VerdictAnnotation = "usher.sh/verdict"
	// SkipEvictionRequestAnnotation on an Eviction says that its client keeps EvictionRequests of its own: where the Eviction
	// is refused, none is created in its name. Any value but "" counts.
	SkipEvictionRequestAnnotation = "usher.sh/skip-eviction-request"
	// MaintainedNodeLabel is on a ReplacementRequest that a NodeMaintenance has made, with the UID of the node that it deletes: where the node is
	// given back instead, the request is withdrawn.
	MaintainedNodeLabel = "usher.sh/maintained-node"
	// MemberSetLabel is on all that Usher makes for a MemberSet; its value is the set's name. MemberGroupLabel is on its pods, with the name of the group, and
	// MemberIDLabel, with the member's id, on what it makes for one member.
	MemberSetLabel   = "usher.sh/member-set"
	MemberGroupLabel = "usher.sh/member-group"
	MemberIDLabel    = "usher.sh/member-id"
	// CrashLoopPrefix begins annotations that have a container of members of a MemberSet crash, so that its volumes can be looked at while nothing uses
	// them: the rest is the container's name. On a MemberSet the value are the members' ids, separated by commas, or "*"; on a pod any value counts. Repair
	// has no such member replaced.
	CrashLoopPrefix = "crash-loop.usher.sh/"
	// EmptyConfigurationAnnotation has members of a MemberSet get a configuration by which no process of their system starts, while their containers run. On a
	// MemberSet the value are the members' ids, separated by commas, or "*"; on a pod any value counts. Repair has no such member replaced, and none of a set that says "*".
	EmptyConfigurationAnnotation = "usher.sh/empty-configuration"
	// OnEvictionAnnotation on a pod of a MemberSet says what comes of its eviction: one of the values of PodOnEviction. It is a record of Usher's own; without it
	// the pod stays.
	OnEvictionAnnotation = "usher.sh/on-eviction"
	// UndoFinalizer is on a policy while there are preparations that deleting it must take back first, or members that have left and
	// that only it remembers, and for ten minutes more.
	UndoFinalizer = "usher.sh/undo"
	// NeverPrefix begins what Usher says of an Eviction that no waiting and no preparation will let through.
	NeverPrefix = "Never: "
	// EmptiedPrefix begins what Usher says of an Eviction whose pod stays and carries nothing any more (leaves: Load).
	EmptiedPrefix = "Emptied: "
)

package eviction

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"usher.sh/usher/api/v1alpha1"
)

// nodeLock is the part that an entry's members have in spec.nodeLock. The zero value is none.
type nodeLock struct {
	label  string // of nodes
	prefix string // of locks that the members wait for; "" for all but the waiter's
	holds  bool
}

func (l nodeLock) waits() bool { return l.prefix != "" }

func nodeLockOf(declared *v1alpha1.NodeLock, role string) nodeLock {
	switch {
	case declared == nil:
		return nodeLock{}
	case role == declared.Waiter:
		return nodeLock{label: declared.StateLabel, prefix: declared.LockPrefix}
	case slices.Contains(declared.Holders, role):
		return nodeLock{label: declared.StateLabel, holds: true}
	}
	return nodeLock{}
}

// orderedBy names the fields of the policy by which others leave a node before the entry's members.
func (e *entry) orderedBy() string {
	if e.nodeLock.waits() {
		return "leavesAfter, nodeLock.holders"
	}
	return "leavesAfter"
}

// nodeLock checks that roles of the policy take part, and that what is written on nodes means nothing to Kubernetes or to Usher itself.
func (c *compiler) nodeLock(spec *v1alpha1.EvictionPolicySpec) {
	lock := spec.NodeLock
	if lock == nil {
		return
	}
	for i, role := range lock.Holders {
		path := fmt.Sprintf("spec.nodeLock.holders[%d]", i)
		c.roleOfPolicy(path, spec, role)
		if role == lock.Waiter {
			c.report(path, "role %q cannot wait for itself: it is the waiter", role)
		}
	}
	if lock.Waiter != "" {
		c.roleOfPolicy("spec.nodeLock.waiter", spec, lock.Waiter)
	}
	for _, problem := range validation.IsQualifiedName(lock.StateLabel) {
		c.report("spec.nodeLock.stateLabel", "it is no key of a label: %s", problem)
	}
	domain, _, qualified := strings.Cut(lock.StateLabel, "/")
	if !qualified {
		c.report("spec.nodeLock.stateLabel", "it needs a domain, as in example.com/%s: keys without one belong to the users of a cluster", lock.StateLabel)
	}
	c.foreignDomain("spec.nodeLock.stateLabel", domain)
	for _, problem := range validation.IsDNS1123Subdomain(lock.LockPrefix) {
		c.report("spec.nodeLock.lockPrefix", "it is no domain: %s", problem)
	}
	c.foreignDomain("spec.nodeLock.lockPrefix", lock.LockPrefix)
}

func (c *compiler) roleOfPolicy(path string, spec *v1alpha1.EvictionPolicySpec, role string) {
	if !slices.ContainsFunc(spec.Members, func(m v1alpha1.MemberSelector) bool { return m.Role == role }) {
		c.report(path, "no entry of spec.members has role %q: name a role that is in this policy", role)
	}
}

// reservedDomains have labels and annotations that others go by: schedulers, kubelets, autoscalers, Usher.
var reservedDomains = []string{"kubernetes.io", "k8s.io", "x-k8s.io", "usher.sh"}

func (c *compiler) foreignDomain(path, domain string) {
	for _, reserved := range reservedDomains {
		if domain == reserved || strings.HasSuffix(domain, "."+reserved) {
			c.report(path, "domain %s is not a policy's to write on nodes: use one of your own", reserved)
		}
	}
}

package replacement

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/internal/lostnode"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/policycache"
	"usher.sh/usher/internal/replacement"
	"usher.sh/usher/internal/snapshot"
)

// isMember says of a pod whether it is the member.
func (r *reconciler) isMember(l *look) func(*snapshot.Pod) bool {
	policy := r.Gatherer.Policies.Compiled(l.policy)
	return func(pod *snapshot.Pod) bool {
		claim, claims := policy.Claim(pod)
		return claims && claim.Role != nil && claim.Role.Name == l.in.Member.Role && claim.Member == l.in.Member.ID
	}
}

// memberPod returns the member's pod as the cache has it; nil: it has none. Of several it is the first by name that has not finished, and they are noted.
func (r *reconciler) memberPod(ctx context.Context, l *look) (*snapshot.Pod, error) {
	pods, err := r.Gatherer.Policies.Pods(ctx, l.request.Namespace)
	if err != nil {
		return nil, err
	}
	is := r.isMember(l)
	var found *snapshot.Pod
	l.pods = nil
	for _, pod := range pods {
		if !is(pod) {
			continue
		}
		if !pod.Finished() {
			l.pods = append(l.pods, pod.Name)
		}
		if found == nil || found.Finished() && !pod.Finished() || found.Finished() == pod.Finished() && pod.Name < found.Name {
			found = pod
		}
	}
	slices.Sort(l.pods)
	return found, nil
}

// named returns the name of the member's pod: of one that is there, or of one that a StatefulSet of the namespace would make. "": there is none.
func (r *reconciler) named(ctx context.Context, l *look) (string, error) {
	switch pod, err := r.memberPod(ctx, l); {
	case err != nil:
		return "", err
	case pod != nil:
		return pod.Name, nil
	}
	return r.madeIn(ctx, l)
}

// madeIn returns the name of the pod of the namespace's StatefulSets that would be the member, "" if none would.
func (r *reconciler) madeIn(ctx context.Context, l *look) (name string, err error) {
	is, left := r.isMember(l), mostSets
	err = observe.EachPage(ctx, r.live, &appsv1.StatefulSetList{}, func(sets *appsv1.StatefulSetList) bool {
		for i := range sets.Items {
			if name = madeBy(&sets.Items[i], is); name != "" {
				return false
			}
		}
		left -= len(sets.Items)
		if left <= 0 && sets.Continue != "" {
			l.lacks(replacement.Unread("the StatefulSets of namespace "+l.request.Namespace, fmt.Sprintf("there are more than %d", mostSets), "wait until the member has a pod once; or delete sets that are not needed"))
		}
		return left > 0
	}, client.InNamespace(l.request.Namespace))
	switch {
	case apierrors.IsForbidden(err):
		l.lacks(replacement.Unread("the StatefulSets of namespace "+l.request.Namespace, err.Error(), bringRights))
		return "", nil
	case err != nil:
		return "", fmt.Errorf("listing StatefulSets: %w", err)
	}
	return name, nil
}

const (
	// mostOrdinals is how many pods of one set are looked at.
	mostOrdinals = 1000
	// mostSets is how many sets of a namespace are.
	mostSets = 1000
)

// madeBy returns the name of the pod of a set that would be the member, "" if none would.
func madeBy(set *appsv1.StatefulSet, is func(*snapshot.Pod) bool) string {
	first, replicas := observe.Ordinals(set)
	for i := first; i < first+min(replicas, mostOrdinals); i++ {
		if pod := observe.MadePod(set, i); is(policycache.Facts(pod)) {
			return pod.Name
		}
	}
	return ""
}

// setOf returns the set's name and the ordinal that are in the name of a pod.
func setOf(pod string) (set string, ordinal int) {
	at := strings.LastIndex(pod, "-")
	if at < 0 {
		return "", -1
	}
	ordinal, err := strconv.Atoi(pod[at+1:])
	if err != nil {
		return "", -1
	}
	return pod[:at], ordinal
}

// makes reports whether a set makes a pod of the name.
func makes(set *appsv1.StatefulSet, pod string) replacement.Tristate {
	first, replicas := observe.Ordinals(set)
	of, ordinal := setOf(pod)
	if set.DeletionTimestamp != nil || of != set.Name || ordinal < first || ordinal >= first+replicas {
		return replacement.No
	}
	return replacement.Yes
}

// after returns the first pod of a set before one of this ordinal that is not Ready, where it makes them in order; "": there is none. It is looked at by the
// cache: what is begun by one that lags behind waits all the same.
func (r *reconciler) after(ctx context.Context, set *appsv1.StatefulSet, ordinal int) (string, error) {
	if set.Spec.PodManagementPolicy != appsv1.OrderedReadyPodManagement {
		return "", nil
	}
	first, _ := observe.Ordinals(set)
	for i := first; i < min(ordinal, first+mostOrdinals); i++ {
		name := set.Name + "-" + strconv.Itoa(i)
		var pod corev1.Pod
		err := r.client.Get(ctx, client.ObjectKey{Namespace: set.Namespace, Name: name}, &pod)
		switch {
		case apierrors.IsNotFound(err):
			return name, nil
		case err != nil:
			return "", fmt.Errorf("reading pod %s: %w", name, err)
		case pod.DeletionTimestamp != nil || !isReady(&pod):
			return name, nil
		}
	}
	return "", nil
}

// statefulSet returns nil where there is none.
func (r *reconciler) statefulSet(ctx context.Context, key snapshot.Key) (*appsv1.StatefulSet, error) {
	var set appsv1.StatefulSet
	err := r.live.Get(ctx, key, &set)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading StatefulSet %s: %w", key.Name, err)
	}
	return &set, nil
}

// claim reads a claim and its volume, and returns the nodes that the volume may be on, where these are few. A volume that is bound to another
// claim is none of it, whatever the claim says.
func (r *reconciler) claim(ctx context.Context, l *look, c *replacement.Claim) (nodes []string, err error) {
	var claim corev1.PersistentVolumeClaim
	err = r.live.Get(ctx, client.ObjectKey{Namespace: l.request.Namespace, Name: c.Name}, &claim)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading claim %s: %w", c.Name, err)
	}
	c.UID, c.Terminating, c.Volume = claim.UID, claim.DeletionTimestamp != nil, claim.Spec.VolumeName
	if c.Volume == "" {
		return nil, nil
	}
	var volume corev1.PersistentVolume
	err = r.live.Get(ctx, client.ObjectKey{Name: c.Volume}, &volume)
	switch {
	case apierrors.IsNotFound(err):
		c.Volume = ""
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading volume %s: %w", c.Volume, err)
	case volume.Spec.ClaimRef == nil || volume.Spec.ClaimRef.UID != claim.UID:
		c.Volume = ""
		return nil, nil
	}
	c.Known, c.VolumeUID = true, volume.UID
	c.Retained = volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain
	return r.nodesOf(ctx, l, &volume)
}

// nodesOf returns the nodes that alone a volume can be used on, where these are few: those with the hostname that its affinity names, the hostname
// itself where no Node has that, or the one node that its affinity selects.
func (r *reconciler) nodesOf(ctx context.Context, l *look, volume *corev1.PersistentVolume) ([]string, error) {
	affinity := volume.Spec.NodeAffinity
	if affinity == nil || affinity.Required == nil {
		return nil, nil
	}
	var nodes corev1.NodeList
	host := hostOf(volume)
	if host != "" { // past the cache: a Node that it lacks would be taken for one that is gone
		if err := r.live.List(ctx, &nodes, client.MatchingLabels{corev1.LabelHostname: host}); err != nil {
			return nil, fmt.Errorf("listing nodes: %w", err)
		}
		if len(nodes.Items) == 0 {
			return []string{host}, nil
		}
		for i := range nodes.Items {
			if err := r.take(ctx, l, nodes.Items[i].Name, &nodes.Items[i]); err != nil {
				return nil, err
			}
		}
		return names(nodes.Items, func(*corev1.Node) bool { return true }), nil
	}
	selector, err := nodeaffinity.NewNodeSelector(affinity.Required)
	if err != nil {
		return nil, nil //nolint:nilerr // it can be used nowhere then
	}
	if err := r.client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	if found := names(nodes.Items, selector.Match); len(found) == 1 {
		return found, nil
	}
	return nil, nil
}

func names(nodes []corev1.Node, is func(*corev1.Node) bool) []string {
	var found []string
	for i := range nodes {
		if is(&nodes[i]) {
			found = append(found, nodes[i].Name)
		}
	}
	return found
}

// hostOf returns the one hostname that a volume's node affinity names, "" where it names none.
func hostOf(volume *corev1.PersistentVolume) string {
	affinity := volume.Spec.NodeAffinity
	if affinity == nil || affinity.Required == nil || len(affinity.Required.NodeSelectorTerms) != 1 {
		return ""
	}
	for _, e := range affinity.Required.NodeSelectorTerms[0].MatchExpressions {
		if e.Key == corev1.LabelHostname && e.Operator == corev1.NodeSelectorOpIn && len(e.Values) == 1 {
			return e.Values[0]
		}
	}
	return ""
}

// node is what is known of a Node.
type node struct {
	facts  replacement.Node
	object *corev1.Node // nil: it is not there
}

// node reads what is known of a node, once in a look.
func (r *reconciler) node(ctx context.Context, l *look, name string) (replacement.Node, error) {
	if known, read := l.nodes[name]; read {
		return known.facts, nil
	}
	from := client.Reader(r.live)
	if l.cached {
		from = r.client
	}
	object := &corev1.Node{}
	err := from.Get(ctx, client.ObjectKey{Name: name}, object)
	switch {
	case apierrors.IsNotFound(err):
		object = nil
	case err != nil:
		return replacement.Node{Name: name}, fmt.Errorf("reading node %s: %w", name, err)
	}
	err = r.take(ctx, l, name, object)
	return l.nodes[name].facts, err
}

// take notes what is known of a node that was read; nil: it is not there.
func (r *reconciler) take(ctx context.Context, l *look, name string, object *corev1.Node) error {
	facts, err := r.nodeFacts(ctx, name, object)
	switch {
	case apierrors.IsForbidden(err):
		l.unread("the Lease of node "+name, err, bringRights)
	case err != nil:
		return err
	}
	l.nodes[name] = node{facts, object}
	return nil
}

func (r *reconciler) nodeFacts(ctx context.Context, name string, object *corev1.Node) (replacement.Node, error) {
	found, err := r.standing(ctx, name, object)
	if err == nil && found.State == replacement.NodeAlive {
		found.Until, err = r.renewed(ctx, name)
	}
	return found, err
}

// standing is what a Node says of itself and its fences of its machine, but for when its kubelet has reported last.
func (r *reconciler) standing(ctx context.Context, name string, object *corev1.Node) (replacement.Node, error) {
	found := replacement.Node{Name: name}
	if object == nil {
		found.State = replacement.NodeDeleted
		return found, nil
	}
	facts := observe.LostNodeFacts(object)
	found.UID, found.Since, found.State, found.Cordoned = object.UID, facts.Since, replacement.NodeLost, object.Spec.Unschedulable
	switch facts.Ready {
	case corev1.ConditionTrue:
		found.State = replacement.NodeAlive
		return found, nil
	case corev1.ConditionFalse:
		found.State = replacement.NodeNotReady
		return found, nil
	case corev1.ConditionUnknown:
	}
	fences, err := observe.FencesOf(ctx, r.client, name)
	if err != nil {
		return found, err
	}
	if lostnode.ProvenOff(&facts, fences) {
		found.State = replacement.NodeOff
		return found, nil
	}
	for _, f := range fences {
		if f.Spec.NodeUID == object.UID && !f.Status.Over() {
			found.Fence = f.Name
		}
	}
	return found, nil
}

// renewed returns when a node's kubelet has renewed its Lease last; zero: never, or that may not be read.
func (r *reconciler) renewed(ctx context.Context, node string) (time.Time, error) {
	var lease coordinationv1.Lease
	err := r.live.Get(ctx, client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: node}, &lease)
	switch {
	case apierrors.IsNotFound(err):
		return time.Time{}, nil
	case err != nil:
		return time.Time{}, fmt.Errorf("reading the Lease of node %s: %w", node, err)
	}
	return renewal(&lease, r.Now()), nil
}

// renewal is when a Lease was renewed last; zero: not known. By a clock that is ahead, which its renewTime is dated by, one that is silent would go on renewing it: then it
// counts when the apiserver has taken the last write.
func renewal(lease *coordinationv1.Lease, now time.Time) time.Time {
	switch renewed := lease.Spec.RenewTime; {
	case renewed == nil:
		return time.Time{}
	case !renewed.After(now):
		return renewed.Time
	}
	var last time.Time
	for i := range lease.ManagedFields {
		if written := lease.ManagedFields[i].Time; written != nil && written.After(last) && !written.After(now) {
			last = written.Time
		}
	}
	return last
}

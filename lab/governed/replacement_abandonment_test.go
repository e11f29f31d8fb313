package governed

import (
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/lab/await"
	"usher.sh/usher/lab/testlab"
)

// replacementGivesUpData: two of three nodes are lost for good with the local volumes on them. The rule that asks for the others holds the
// replacement until a person gives it up, and the volume is kept.
func (h *house) replacementGivesUpData(t *testing.T) {
	t.Parallel()
	l := h.local(t, "db")
	h.governReplicas(t, l.ns, "db")
	lost, other := l.pods[2], l.pods[1]
	old, others := h.volumeOf(t, l.ns, lost.Name), h.volumeOf(t, l.ns, other.Name)
	h.removeNode(t, other)
	h.removeNode(t, lost)
	said := h.usher(t, "replace", lost.Name, "-n", l.ns, "--abandon-data").ends(t, 2, "rule others-ready: OtherReplicaNotReady", "there is no terminal to ask on", "volumeClaims: Retain")
	name := requestIn(t, said)
	q := h.waitReplacement(t, l.ns, name, "the request to wait for the others", waitsFor("OtherReplicaNotReady"))
	if remedy := q.Status.Blockers[0].Remedy; !strings.Contains(remedy, "usher replace "+lost.Name+" -n "+l.ns+" --policy db --role replica --abandon-data") {
		t.Errorf("the remedy is %q", remedy)
	}
	h.usher(t, "replace", lost.Name, "-n", l.ns, "--abandon-data", "--dry-run=server").ends(t, 0, "would give up rule others-ready")
	if q = h.waitReplacement(t, l.ns, name, "the request to be there", func(q *v1alpha1.ReplacementRequest) bool { return q != nil }); q.Spec.Abandonment != nil || q.Status.Step != v1alpha1.ReplacementWaiting {
		t.Fatalf("a dry run gives data up: %+v, %s", q.Spec.Abandonment, q.Status.Step)
	}
	h.usher(t, "replace", lost.Name, "-n", l.ns, "--abandon-data", "--confirm").ends(t, 0, "has given up rule others-ready of member "+lost.Name, "is replaced")
	q = h.waitReplacement(t, l.ns, name, "the member to be replaced", isReplaced)
	if w := q.Status.Waived; len(w) != 1 || w[0].Rule != "others-ready" || !strings.Contains(q.Status.Conditions[0].Message, "; given up by "+q.Spec.Abandonment.Requester) {
		t.Errorf("waived: %+v, %+v", w, q.Status.Conditions)
	}
	if q.Status.Successor == nil || q.Status.Successor.Node != l.spare {
		t.Errorf("the successor is %+v, want it on %s", q.Status.Successor, l.spare)
	}
	for _, volume := range []*corev1.PersistentVolume{old, others} {
		must(t, h.client.Get(t.Context(), client.ObjectKeyFromObject(volume), volume))
	}
	if old.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain || old.DeletionTimestamp != nil || others.Status.Phase != corev1.VolumeBound {
		t.Errorf("the member's volume is not kept (%s), or another's was touched (%s)", old.Spec.PersistentVolumeReclaimPolicy, others.Status.Phase)
	}
	events := await.Source[*eventsv1.Event]{Client: h.lab.Client().EventsV1().RESTClient(), Resource: "events", Namespace: l.ns}
	testlab.WaitFor(t, events, "an event of the policy", func(all []*eventsv1.Event) bool {
		return slices.ContainsFunc(all, func(e *eventsv1.Event) bool {
			return e.Regarding.Kind == "EvictionPolicy" && e.Reason == "DataAbandoned" && strings.Contains(e.Note, "member "+lost.Name)
		})
	})
}

// requestIn finds the name of the request that a command has made.
func requestIn(t *testing.T, said string) string {
	t.Helper()
	_, after, found := strings.Cut(said, "ReplacementRequest ")
	name, _, _ := strings.Cut(after, " ")
	if !found || name == "" {
		t.Fatalf("no request was made: %s", said)
	}
	return name
}

// dataIsGivenUpByWhoSaysSo: the word is that of the user who writes it, who may delete pods and claims, and it is given once.
func (h *house) dataIsGivenUpByWhoSaysSo(t *testing.T) {
	l := h.local(t, "db")
	h.governReplicas(t, l.ns, "db")
	writes := rbacv1.PolicyRule{APIGroups: []string{"usher.sh"}, Resources: []string{"replacementrequests"}, Verbs: []string{"create", "get", "patch"}}
	user := func(resources ...string) (client.Client, string) {
		config, _ := h.lab.As(t, []rbacv1.PolicyRule{writes, {APIGroups: []string{""}, Resources: resources, Verbs: []string{"delete"}}})
		c, err := client.New(config, client.Options{Scheme: h.client.Scheme()})
		must(t, err)
		self, err := kubernetes.NewForConfigOrDie(config).AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		must(t, err)
		return c, self.Status.UserInfo.Username
	}
	owner, name := user("pods", "persistentvolumeclaims")
	tenant, tenantName := user("pods")
	q := h.requestReplacement(t, l.ns, "db", l.pods[2].Name)
	give := func(c client.Client, requester string, rules ...string) error {
		var now v1alpha1.ReplacementRequest
		must(t, c.Get(t.Context(), client.ObjectKeyFromObject(q), &now))
		changed := now.DeepCopy()
		changed.Spec.Abandonment = &v1alpha1.ReplacementAbandonment{Requester: requester, Time: metav1.Now(), Rules: rules}
		return c.Patch(t.Context(), changed, client.MergeFrom(&now))
	}
	refused := func(what string, err error, is func(error) bool, words string) {
		t.Helper()
		if err == nil || !is(err) || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v, want %q", what, err, words)
		}
	}
	refused("another's name", give(owner, "anna", "others-ready"), apierrors.IsForbidden, "must be the user who gives the data up: "+name)
	refused("without the right to delete claims", give(tenant, tenantName, "others-ready"), apierrors.IsForbidden, "may not delete persistentvolumeclaims in namespace "+l.ns)
	refused("no rule", give(owner, name), apierrors.IsInvalid, "rules")
	must(t, give(owner, name, "others-ready"))
	refused("more rules", give(owner, name, "others-ready", "not-the-only-one"), apierrors.IsInvalid, "an abandonment is a record")
	created := requestFor(l.ns, "db", l.pods[1].Name)
	created.Spec.Abandonment = &v1alpha1.ReplacementAbandonment{Requester: "anna", Time: metav1.Now(), Rules: []string{"others-ready"}}
	refused("created with another's name", owner.Create(t.Context(), created), apierrors.IsForbidden, "must be the user who gives the data up: "+name)
	created.Spec.Abandonment.Requester = name
	must(t, owner.Create(t.Context(), created))
	h.waitReplacement(t, l.ns, created.Name, "a member that runs to stay whatever is given up", waitsFor("PredecessorRuns"))
	for _, request := range []*v1alpha1.ReplacementRequest{q, created} {
		must(t, h.client.Delete(t.Context(), request))
		h.waitReplacement(t, l.ns, request.Name, "the request to go", func(q *v1alpha1.ReplacementRequest) bool { return q == nil })
	}
}

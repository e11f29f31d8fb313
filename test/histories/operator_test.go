package histories

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
)

// operate has an operator replace the members, and a request ask it for b.
func (d *departure) operate(t *testing.T, byList bool) *v1alpha1.ReplacementRequest {
	t.Helper()
	d.operator = d.newOperator("m")
	d.operator.byList, d.operator.undoes = byList, true
	if err := d.deployOperator(); err != nil {
		t.Fatal(err)
	}
	q := duplicate(d.begin(t, "b", d.pod.UID))
	q.Status.Predecessor.Target = &v1alpha1.ReplacementTarget{Name: "b"}
	d.store.put(q)
	d.replace("b")
	return q
}

// deleted has a request be deleted at a time.
func (d *departure) deleted(q *v1alpha1.ReplacementRequest, at time.Time) {
	q = duplicate(q)
	q.Finalizers, q.DeletionTimestamp = []string{v1alpha1.ReplacementFinalizer}, &metav1.Time{Time: at}
	d.store.put(q)
}

// TestAskedExcuses checks when an operator may be asked for b.
func TestAskedExcuses(t *testing.T) {
	cases := []struct {
		name     string
		with     func(*departure, *v1alpha1.ReplacementRequest)
		property string
	}{
		{"it is replaced", func(*departure, *v1alpha1.ReplacementRequest) {}, ""},
		{"its replacement is over", func(d *departure, q *v1alpha1.ReplacementRequest) {
			q = duplicate(q)
			q.Status.Step = v1alpha1.ReplacementCancelled
			d.store.put(q)
		}, "REPLACED"},
		{"its request is gone since the look", func(d *departure, q *v1alpha1.ReplacementRequest) {
			d.store.drop(replaces, client.ObjectKeyFromObject(q))
		}, ""},
		{"its request was deleted before", func(d *departure, q *v1alpha1.ReplacementRequest) { d.deleted(q, d.removal.looked.Add(-time.Second)) }, "REPLACED"},
		{"and since the look", func(d *departure, q *v1alpha1.ReplacementRequest) { d.deleted(q, d.removal.looked.Add(time.Second)) }, ""},
		{"no policy says so", func(d *departure, _ *v1alpha1.ReplacementRequest) { d.replace("a") }, "PERMIT"},
		{"it alone has its data", func(d *departure, _ *v1alpha1.ReplacementRequest) {
			d.safety.missed["b"] = time.Now().Add(-maxAge - time.Second)
		}, "REPLACED"},
		{"since a moment ago", func(d *departure, _ *v1alpha1.ReplacementRequest) {
			d.safety.missed["b"] = time.Now().Add(-maxAge + time.Second)
		}, ""},
		{"the successor of another has not begun", func(d *departure, _ *v1alpha1.ReplacementRequest) {
			d.awaits["a"] = awaited{request: d.begin(t, "a", "x").UID}
		}, "REPLACED"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := wrongDeparture(t)
			q := d.operate(t, false)
			c.with(d, q)
			d.checkAsked("b", d.removal.looked)
			d.check(t, c.property != "", c.property, c.name)
		})
	}
}

// TestPatched checks what a patch may make of an object.
func TestPatched(t *testing.T) {
	list := func(members ...string) func(*unstructured.Unstructured) {
		return func(shop *unstructured.Unstructured) {
			if err := unstructured.SetNestedStringSlice(shop.Object, members, "spec", "replace"); err != nil {
				t.Fatal(err)
			}
		}
	}
	none := func(*departure, *v1alpha1.ReplacementRequest) {}
	cancelled := func(d *departure, q *v1alpha1.ReplacementRequest) { d.deleted(q, d.removal.looked) }
	cases := []struct {
		name          string
		with          func(*departure, *v1alpha1.ReplacementRequest)
		before, after func(*unstructured.Unstructured)
		fails         bool
	}{
		{"a member", none, list("archive"), list("archive", "b"), false},
		{"a member, and another goes", none, list("archive"), list("b"), true},
		{"and something else", none, list(), func(shop *unstructured.Unstructured) { list("b")(shop); shop.SetLabels(map[string]string{"a": "b"}) }, true},
		{"none any more", cancelled, list("archive", "b"), list("archive"), false},
		{"none any more, and it is not cancelled", none, list("archive", "b"), list("archive"), true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := wrongDeparture(t)
			c.with(d, d.operate(t, true))
			d.editShop(c.before)
			before := d.store.get(shops, shopKey)
			d.editShop(c.after)
			d.checkPatched(before, d.store.get(shops, shopKey), d.removal.looked)
			d.check(t, c.fails, "REPLACED", c.name)
		})
	}
}

// TestTakenBack checks when an operator may be asked for b at the end.
func TestTakenBack(t *testing.T) {
	cases := []struct {
		name  string
		with  func(*departure, *v1alpha1.ReplacementRequest)
		fails bool
	}{
		{"its request stands", func(*departure, *v1alpha1.ReplacementRequest) {}, false},
		{"it is gone", func(d *departure, q *v1alpha1.ReplacementRequest) {
			d.store.drop(replaces, client.ObjectKeyFromObject(q))
		}, true},
		{"it was taken away by force", func(d *departure, q *v1alpha1.ReplacementRequest) {
			d.erased[q.UID] = true
			d.store.drop(replaces, client.ObjectKeyFromObject(q))
		}, false},
		{"it was deleted", func(d *departure, q *v1alpha1.ReplacementRequest) { d.deleted(q, time.Now()) }, true},
		{"and that cannot be taken back", func(d *departure, q *v1alpha1.ReplacementRequest) {
			d.operator.undoes = false
			d.deleted(q, time.Now())
		}, false},
		{"the operator has begun", func(d *departure, q *v1alpha1.ReplacementRequest) {
			d.operator.begun["b"] = operated{}
			d.deleted(q, time.Now())
		}, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := wrongDeparture(t)
			q := d.operate(t, false)
			d.operator.asked["b"] = asked{request: q.UID}
			d.pod = duplicate(d.pod)
			metav1.SetMetaDataAnnotation(&d.pod.ObjectMeta, operatorAnnotation, "true")
			d.store.put(d.pod)
			c.with(d, q)
			d.checkTakenBack()
			d.check(t, c.fails, "UNDO", c.name)
		})
	}
}

package histories

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
)

// operator is another controller that replaces the members of a role, which it is asked for by an annotation of a pod, or by an element of a list in its own
// object. Which it has begun with it goes on with, whatever becomes of that.
type operator struct {
	role    string
	byList  bool // in its own object
	undoes  bool // the policy says how what it was asked is taken back
	careful bool // it removes no member with which data is lost
	idle    bool // it never does anything

	down    time.Time            // until when it does not run
	notices map[string]time.Time // when it becomes aware of a member that it is asked for
	begun   map[string]operated  // by member
	sent    map[types.UID]bool   // pods that it is deleting
	again   time.Time            // when to delete a pod that was refused
	asked   map[string]asked     // by member: what Usher has asked for last
}

// operated is what an operator removes of a member; empty: there was none.
type operated struct{ pod, claim types.UID }

// asked is for which request and when an operator was asked for a member.
type asked struct {
	request types.UID
	at      time.Time
}

const (
	operatorUser       = "system:serviceaccount:operators:keeper-operator"
	operatorAnnotation = "example.com/replace"
	// patcher is the ServiceAccount as which the policy has objects patched.
	patcher = "keeper-patcher"
)

var shopKind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Shop"}

var shopKey = client.ObjectKey{Namespace: namespace, Name: "main"}

// newOperator draws what an operator is like.
func (w *world) newOperator(role string) *operator {
	return &operator{
		role: role, byList: w.dice.IntN(2) == 0, undoes: w.dice.IntN(3) > 0, careful: w.dice.IntN(2) == 0, idle: w.dice.IntN(6) == 0,
		notices: map[string]time.Time{}, begun: map[string]operated{}, sent: map[types.UID]bool{}, asked: map[string]asked{},
	}
}

// deployOperator creates the object of an operator that has one.
func (w *world) deployOperator() error {
	if w.operator == nil || !w.operator.byList {
		return nil
	}
	shop := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": int64(3), "replace": []any{"archive"}}}} // which is no member of the policy
	shop.SetGroupVersionKind(shopKind)
	shop.SetNamespace(shopKey.Namespace)
	shop.SetName(shopKey.Name)
	return w.store.create(shop)
}

// provider is how a policy has it asked.
func (o *operator) provider() *v1alpha1.Provider {
	patch := &v1alpha1.PatchProvider{
		Target: v1alpha1.PatchTarget{APIVersion: "v1", Kind: "Pod", Name: "{{pod.name}}"},
		Do:     v1alpha1.ObjectPatch{Merge: `{"metadata": {"annotations": {"` + operatorAnnotation + `": "true"}}}`},
	}
	undo := &v1alpha1.ObjectPatch{Merge: `{"metadata": {"annotations": {"` + operatorAnnotation + `": null}}}`}
	if o.byList {
		element := []v1alpha1.ListElement{{Path: "/spec/replace", Value: "{{member.id}}"}}
		patch.Target = v1alpha1.PatchTarget{APIVersion: shopKind.GroupVersion().String(), Kind: shopKind.Kind, Name: shopKey.Name}
		patch.Do, undo = v1alpha1.ObjectPatch{Append: element}, &v1alpha1.ObjectPatch{Remove: element}
	}
	if o.undoes {
		patch.Undo = undo
	}
	return &v1alpha1.Provider{Patch: patch}
}

// shopList is what the object of an operator asks it for.
func shopList(object client.Object) []string {
	shop, ok := object.(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	all, _, _ := unstructured.NestedStringSlice(shop.Object, "spec", "replace")
	return all
}

// askedFor are the members that an object asks an operator for.
func (o *operator) askedFor(object client.Object) []string {
	if pod, ok := object.(*corev1.Pod); ok && pod.Annotations[operatorAnnotation] == "true" {
		return []string{pod.Name}
	}
	return shopList(object)
}

// asks reports whether the operator is asked for a member.
func (w *world) asks(member string) bool {
	if w.operator.byList {
		return slices.Contains(shopList(w.store.get(shops, shopKey)), member)
	}
	pod := w.store.pod(member)
	return pod != nil && len(w.operator.askedFor(pod)) > 0
}

// operate is what an operator does next, nil if that is nothing.
func (w *world) operate() func() {
	o := w.operator
	if o == nil || o.idle || time.Now().Before(o.down) {
		return nil
	}
	for _, p := range w.site.members() {
		if next := w.operateOn(p); p.role == o.role && next != nil {
			return next
		}
	}
	return nil
}

func (w *world) operateOn(p planned) func() {
	o, pod, claim := w.operator, w.store.pod(p.pod), w.claim(p.pod)
	is, begun := o.begun[p.pod]
	old := claim != nil && claim.UID == is.claim
	switch {
	case !begun && (!w.asks(p.pod) || time.Now().Before(o.notices[p.pod]) || o.careful && w.local().wouldLoseDisk(p.pod) != ""):
		return nil
	case !begun:
		return func() { w.beginOperation(p, pod, claim) }
	case old && claim.DeletionTimestamp == nil:
		return func() { w.store.remove(claim) }
	case pod != nil && pod.DeletionTimestamp == nil && (pod.UID == is.pod || pod.Spec.NodeName == "" && (old || claim == nil)):
		if o.sent[pod.UID] || time.Now().Before(o.again) {
			return nil
		}
		return func() { w.operatorDeletes(pod) }
	case pod != nil && pod.UID != is.pod && !old && claim != nil:
		return func() { w.endOperation(p.pod) }
	}
	return nil
}

// beginOperation has the operator begin to remove a member, as Usher has asked.
func (w *world) beginOperation(p planned, pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) {
	w.note("operator: replaces %s", p.pod)
	var is operated
	if pod != nil {
		is.pod = pod.UID
	}
	if claim != nil {
		is.claim = claim.UID
	}
	w.operator.begun[p.pod] = is
	why, n := w.wouldLose(p.pod), w.safety.needed[p.pod]
	if why != "" && n.cause == ours && n.since.After(w.operator.asked[p.pod].at) {
		w.fail("SAFETY", "the operator removes %s, as it was asked, and %s, since %s was let go", p.pod, why, n.by)
	}
	w.safety.excused = w.safety.excused || w.local().wouldLoseDisk(p.pod) != ""
}

// operatorDeletes has the operator delete a pod, which admission lets through: the policy says that it knows itself when it may.
func (w *world) operatorDeletes(pod *corev1.Pod) {
	o := w.operator
	o.sent[pod.UID] = true
	w.spawn(func() {
		ctx, cancel := context.WithTimeout(w.ctx, 34*time.Second)
		defer cancel()
		if w.remove(ctx, &removal{user: operatorUser, of: "operator", pod: pod.Name, uid: pod.UID, delete: true, excuse: "its operator removes it"}) != nil {
			o.again = time.Now().Add(5 * time.Second)
		}
		delete(o.sent, pod.UID)
	})
}

// endOperation has the operator ask itself for a member no more. Its annotation has gone with the pod.
func (w *world) endOperation(member string) {
	w.note("operator: has replaced %s", member)
	delete(w.operator.begun, member)
	w.editShop(func(shop *unstructured.Unstructured) {
		left := slices.DeleteFunc(shopList(shop), func(m string) bool { return m == member })
		_ = unstructured.SetNestedStringSlice(shop.Object, left, "spec", "replace")
	})
}

func (w *world) editShop(edit func(*unstructured.Unstructured)) {
	if shop, ok := w.store.get(shops, shopKey).(*unstructured.Unstructured); ok {
		shop = duplicate(shop)
		edit(shop)
		w.store.put(shop)
	}
}

// disturbOperator has the operator stop for a while, or write to what it is asked by.
func (w *world) disturbOperator() {
	switch o := w.operator; {
	case o == nil:
	case w.dice.IntN(3) == 0:
		o.down = time.Now().Add(time.Duration(10+w.dice.IntN(200)) * time.Second)
		w.note("operator: is down until %.0f", o.down.Sub(w.begun).Seconds())
	case o.byList:
		w.editShop(func(shop *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(shop.Object, int64(w.store.version), "status", "seen")
		})
	default:
		if pod := w.store.pod(w.somePod().pod); pod != nil {
			pod = duplicate(pod)
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, "example.com/seen", pod.ResourceVersion)
			w.store.put(pod)
		}
	}
}

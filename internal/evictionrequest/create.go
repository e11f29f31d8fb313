package evictionrequest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	api "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const maxName = 253

// newEviction returns the next eviction of the pod, owned by the request, with the labels that it will have once its responders are chosen:
// they would take a write of their own.
func (t Target) newEviction(r *api.EvictionRequest) *api.Eviction {
	e := &api.Eviction{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       t.Ref.Namespace,
			Name:            t.nextName(),
			OwnerReferences: []metav1.OwnerReference{t.owner(r)},
		},
		Spec: api.EvictionSpec{Target: api.EvictionTarget{Pod: &api.EvictionPodReference{Name: t.Ref.Name, UID: t.Ref.UID}}},
	}
	t.Requests = []*api.EvictionRequest{r}
	var chosen api.EvictionStatus
	if t.Pod != nil {
		chosen.TargetResponders = t.responders()
	}
	e.Labels = t.roles(&api.Eviction{ObjectMeta: e.ObjectMeta, Spec: e.Spec, Status: chosen})
	return e
}

// nextName counts the evictions of all pods that had the name, since they share the space of names.
func (t Target) nextName() string {
	last := 0
	for _, e := range t.Evictions {
		last = max(last, serial(e.Name))
	}
	return fit(fmt.Sprintf("pod-%d-%s", last+1, t.Ref.Name), maxName)
}

// fit cuts a name and marks it, so that two long names stay two.
func fit(name string, limit int) string {
	if len(name) <= limit {
		return name
	}
	mark := "-" + hash(name)
	return strings.TrimRight(name[:limit-len(mark)], "-._") + mark
}

const hashLength = 10

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:hashLength]
}

// owner makes the eviction vanish with the last of its requests. It is no controller reference: there may be several.
func (t Target) owner(r *api.EvictionRequest) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: t.Version.String(), Kind: "EvictionRequest", Name: r.Name, UID: r.UID}
}

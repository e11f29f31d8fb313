package memberset

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/memberset"
	"usher.sh/usher/internal/observe"
)

// paged is an apiserver that has as many objects of each kind, all of them large, of which no more than a page may be asked for at once.
type paged struct {
	client.Reader

	objects int
	refuse  bool
}

func (p *paged) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	asked := (&client.ListOptions{}).ApplyOptions(options)
	if asked.Limit == 0 || asked.Limit > observe.AtOnce {
		return fmt.Errorf("%T is asked for whole", list)
	}
	if p.refuse {
		return apierrors.NewForbidden(schema.GroupResource{}, "", fmt.Errorf("no right"))
	}
	if asked.Namespace != "shop" || asked.LabelSelector.String() != v1alpha1.MemberSetLabel+"=kv" {
		return fmt.Errorf("%T of others is asked for", list)
	}
	first, _ := strconv.Atoi(asked.Continue)
	last := min(p.objects, first+int(asked.Limit))
	for i := first; i < last; i++ {
		meta := metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint("kv-", i), Annotations: map[string]string{"large": strings.Repeat("x", 1<<10)}}
		switch list := list.(type) {
		case *corev1.PodList:
			list.Items = append(list.Items, corev1.Pod{ObjectMeta: meta})
		case *corev1.PersistentVolumeClaimList:
			list.Items = append(list.Items, corev1.PersistentVolumeClaim{ObjectMeta: meta})
		case *corev1.ServiceList:
			list.Items = append(list.Items, corev1.Service{ObjectMeta: meta})
		}
	}
	if last < p.objects {
		list.SetContinue(strconv.Itoa(last))
	}
	return nil
}

// What carries the set's label, each of which its owner may make as large as the apiserver takes it, is never read all at once, and of none it is kept what is not asked for.
func TestWhatIsLabelledIsReadInPages(t *testing.T) {
	for name, test := range map[string]struct {
		read  func(*reconciler, context.Context, *look) error
		names func(*memberset.Input) []string
		error string // of a missing right; "": that is a blocker
	}{
		"pods": {(*reconciler).pods, func(in *memberset.Input) (names []string) {
			for i := range in.Pods {
				if len(in.Pods[i].Annotations) == 0 {
					names = append(names, in.Pods[i].Name)
				}
			}
			return names
		}, "listing pods: "},
		"claims": {(*reconciler).claims, func(in *memberset.Input) (names []string) {
			for i := range in.Claims {
				names = append(names, in.Claims[i].Name)
			}
			return names
		}, ""},
		"Services": {(*reconciler).services, func(in *memberset.Input) (names []string) {
			for i := range in.Services {
				names = append(names, in.Services[i].Name)
			}
			return names
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, objects := range []int{0, 3, 2 * observe.AtOnce, 2*observe.AtOnce + 1} {
				l := &look{set: plainSet()}
				l.in.Kind.Ports = func(int32) []corev1.ServicePort { return nil }
				if err := test.read(&reconciler{live: &paged{objects: objects}}, t.Context(), l); err != nil {
					t.Fatal(err)
				}
				names := test.names(&l.in)
				if len(names) != objects || objects > 0 && names[objects-1] != fmt.Sprint("kv-", objects-1) {
					t.Errorf("%d are read of %d: %s", len(names), objects, names)
				}
			}
			l := &look{set: plainSet()}
			l.in.Kind.Ports = func(int32) []corev1.ServicePort { return nil }
			err := test.read(&reconciler{live: &paged{refuse: true}}, t.Context(), l)
			if test.error == "" && (err != nil || len(l.in.Unread) != 1) || test.error != "" && (err == nil || !strings.HasPrefix(err.Error(), test.error)) {
				t.Errorf("without the right: %v, %+v", err, l.in.Unread)
			}
		})
	}
}

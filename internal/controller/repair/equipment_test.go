package repair

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/replacement"
)

// listed is an apiserver that gives as many at a time as it is asked for, and no object by its name.
type listed struct{ client.Client }

func (p listed) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	return fmt.Errorf("%T %s is asked for by its name", object, key.Name)
}

func (p listed) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	asked := (&client.ListOptions{}).ApplyOptions(options)
	if asked.Limit == 0 || asked.Limit > observe.AtOnce {
		return fmt.Errorf("%T is asked for whole", list)
	}
	if err := p.Client.List(ctx, list, &client.ListOptions{Namespace: asked.Namespace, LabelSelector: asked.LabelSelector}); err != nil {
		return err
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	first, _ := strconv.Atoi(asked.Continue)
	last := min(len(items), first+int(asked.Limit))
	if last < len(items) {
		list.SetContinue(strconv.Itoa(last))
	}
	return meta.SetList(list, items[first:last])
}

// What there is of what members need, each of which its owner may make as large as the apiserver takes it, is never read all at once.
func TestWhatMembersNeedIsReadInPages(t *testing.T) {
	for name, beside := range map[string]int{"one page": 0, "a page, and a bit": observe.AtOnce - 2, "several": 3 * observe.AtOnce} {
		t.Run(name, func(t *testing.T) {
			f := newOfSet(t)
			set := &v1alpha1.MemberSet{}
			f.must(f.store.Get(t.Context(), theSet, set))
			for i := range beside {
				object := metav1.ObjectMeta{Namespace: theSet.Namespace, Name: fmt.Sprint("a-", i), Labels: labelsOf(set, "other")}
				f.must(f.store.Create(t.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: object}))
				f.must(f.store.Create(t.Context(), &corev1.Service{ObjectMeta: object}))
			}
			f.r.live = listed{f.store}
			got, err := f.r.equipped(t.Context(), &ofMemberSet{MemberSet: set}, true, noon)
			f.must(err)
			all := equipped{claims: replacement.Yes, service: replacement.Yes}
			want := map[string]equipped{"db-storage-1": all, "db-storage-2": all, "db-storage-3": all}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(equipped{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

package manager

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"usher.sh/usher/internal/policycache"
)

// pages is an apiserver that serves the crowd's pods in pages.
type pages struct {
	t     *testing.T
	asked []metav1.ListOptions
	fails bool
}

func (p *pages) ListWithContext(_ context.Context, o metav1.ListOptions) (runtime.Object, error) {
	p.asked = append(p.asked, o)
	n := len(p.asked)
	if p.fails && n == 2 {
		return nil, errors.New("gone away")
	}
	page := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "7", Continue: fmt.Sprint(n)}, Items: []corev1.Pod{*crowdPod(p.t, 2*n), *crowdPod(p.t, 2*n+1)}}
	if n == 3 {
		page.Continue = ""
	}
	return page, nil
}

func TestPodsAreListedInPages(t *testing.T) {
	from := &pages{t: t}
	list, err := (&slimmer{}).list(t.Context(), from, metav1.ListOptions{ResourceVersion: "0", ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan})
	if err != nil {
		t.Fatal(err)
	}
	pods := list.(*corev1.PodList)
	if len(pods.Items) != 6 || pods.ResourceVersion != "7" || pods.Continue != "" {
		t.Errorf("got %d pods at version %q, continued by %q", len(pods.Items), pods.ResourceVersion, pods.Continue)
	}
	for i := range pods.Items {
		if !policycache.Reduced(&pods.Items[i]) {
			t.Errorf("%s is whole", pods.Items[i].Name)
		}
	}
	for i, o := range from.asked {
		want := metav1.ListOptions{Limit: pageSize}
		if i > 0 {
			want.Continue = fmt.Sprint(i)
		}
		if o != want {
			t.Errorf("page %d was asked for with %+v, want %+v", i, o, want)
		}
	}
	if _, err := (&slimmer{}).list(t.Context(), &pages{t: t, fails: true}, metav1.ListOptions{}); err == nil {
		t.Error("a page that is missing is passed over")
	}
}

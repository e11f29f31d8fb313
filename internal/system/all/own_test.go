package all_test

import (
	"context"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/expression"
	"usher.sh/usher/internal/policycache"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"
)

// own is a kind of system of this test's own, in the place of a field of the API: it has its own way to its system, facts, a step and a role.
func own(opened *system.Access) system.Kind {
	return system.Kind{
		Name:     "etcd",
		Declared: func(spec *v1alpha1.System) bool { return spec.Etcd != nil },
		Schema:   expression.Schema{Member: []expression.Field{{Name: "machines", Type: expression.Int}}},
		Steps:    map[string]string{"Migrate": "moves the machines away"},
		Roles: fstest.MapFS{"hypervisor.yaml": {Data: []byte(`
name: hypervisor
system: etcd
state: Persistent
identity: Unique
evict:
  rules: [{name: empty, reason: HoldsMachines, expression: member.machines == 0, message: "{{member.machines}} machines run on {{member.id}}"}]
  prepare: [{name: Migrate, when: member.machines > 0, message: they are moved}]
replace: {successor: SameIdentity}
`)}},
		References: func(spec *v1alpha1.System) system.References {
			return system.References{Secrets: []v1alpha1.SecretKey{{Name: spec.Etcd.Auth.Name, Key: "region"}}}
		},
		Open: func(_ *v1alpha1.System, access system.Access) (system.System, error) {
			*opened = access
			return region{}, nil
		},
	}
}

type region struct{}

func (region) Observe(_ context.Context, members []system.Member) (*eviction.Evidence, error) {
	said := &eviction.Evidence{Members: map[string]expression.Facts{}}
	for _, m := range members {
		said.Members[m.ID] = expression.Facts{"machines": int64(3)}
	}
	return said, nil
}

func (region) Prepare(context.Context, eviction.Preparation) (eviction.Job, error) {
	return eviction.Job{}, nil
}

func (region) Undo(context.Context, eviction.Preparation) (eviction.Undone, error) {
	return eviction.Undone{Done: true}, nil
}

func (region) Close() {}

// A kind of system in the list is all that it takes for verdicts about its members.
func TestAKindOfOnesOwn(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	policy := &v1alpha1.EvictionPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "cloud", Name: "vms", UID: "policy", Generation: 1},
		Spec: v1alpha1.EvictionPolicySpec{
			System:  v1alpha1.System{Etcd: &v1alpha1.Etcd{Auth: &v1alpha1.SecretName{Name: "keystone"}}},
			Members: []v1alpha1.MemberSelector{{Role: "hypervisor", Selector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "nova"}}}},
		},
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "cloud", Name: "nova-0", UID: "pod", Labels: map[string]string{"app": "nova"}},
		Spec:       corev1.PodSpec{NodeName: "n1"},
	}
	store := fake.NewClientBuilder().WithScheme(scheme).WithObjects(policy, pod).WithIndex(&corev1.Pod{}, policycache.LeavingIndex, policycache.IndexLeaving).Build()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "keystone"}, Data: map[string][]byte{"region": []byte("north")}}
	var opened system.Access
	kinds := []system.Kind{own(&opened)}
	kind := func(spec *v1alpha1.System) (system.Kind, bool) { return system.Of(kinds, spec) }
	roles, err := eviction.ParseRoles(kinds[0].Roles)
	if err != nil {
		t.Fatal(err)
	}
	policies := policycache.New(store, kind, roles)
	observer := policycache.NewObserver(policycache.ObserverConfig{
		Kind: kind, Now: time.Now, Log: slog.New(slog.DiscardHandler),
		Secret: func(context.Context, snapshot.Key) (*corev1.Secret, error) { return secret, nil },
	})
	gatherer := &policycache.Gatherer{Policies: policies, Observer: observer, Live: store, Now: time.Now}
	in, err := gatherer.Input(t.Context(), policycache.Subject{Pod: pod})
	if err != nil {
		t.Fatal(err)
	}
	verdict := eviction.Judge(in)
	if len(verdict.Blockers) != 1 || verdict.Blockers[0].Reason != "HoldsMachines" || len(verdict.Needed) != 1 {
		t.Errorf("blockers %+v, steps %+v", verdict.Blockers, verdict.Needed)
	}
	want := map[v1alpha1.SecretKey][]byte{{Name: "keystone", Key: "region"}: []byte("north")}
	if diff := cmp.Diff(want, opened.Secrets); diff != "" {
		t.Error(diff)
	}
}

// Only its own folder knows the field of the API that declares a kind.
func TestFieldsOfTheAPIAreUsedInTheirFoldersOnly(t *testing.T) {
	field := regexp.MustCompile(`\b(?:[Ss]pec|System|system)\.(ArangoDB|Etcd|FoundationDB|HTTP|OpenStack)\b`)
	homes := map[string]string{"ArangoDB": "system/arangodb/", "Etcd": "system/etcd/", "FoundationDB": "system/foundationdb/", "HTTP": "system/rest/", "OpenStack": "system/openstack/"}
	root := "../.."
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		path = strings.TrimPrefix(filepath.ToSlash(path), root+"/")
		for _, found := range field.FindAllSubmatch(text, -1) {
			home := homes[string(found[1])]
			if !strings.HasPrefix(path, home) {
				t.Errorf("internal/%s uses %s: what is known of that kind belongs into internal/%s", path, found[0], home)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

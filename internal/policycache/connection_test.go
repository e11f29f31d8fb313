package policycache

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"
)

func TestASystemIsOpenedAnewWhenWhatItRestsOnHasChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := newStage(), &fakeSystem{}
		k, p := w.observer(), w.policy("a", s)
		key := v1alpha1.SecretKey{Name: "login", Key: "token"}
		p.Spec.System.HTTP.Headers = []v1alpha1.Header{{Name: "Authorization", Secret: &key}}
		w.putSecret("login", "1", map[string]string{"token": "old"})

		opens := func(want int, when string) {
			t.Helper()
			k.Evidence(t.Context(), of(p), 0, 0)
			if got := w.opens(); got != want {
				t.Errorf("%s: opened %d times, want %d", when, got, want)
			}
			wait(time.Second)
		}
		opens(1, "at first")
		opens(1, "again")
		w.putSecret("login", "2", map[string]string{"token": "new"})
		opens(1, "the Secret has changed and the system still answers")
		s.set(func(s *fakeSystem) { s.fails = errDown })
		opens(1, "the system refuses")
		opens(2, "after it has refused")
		if got := string(w.opened[1].Secrets[key]); got != "new" {
			t.Errorf("opened with %q", got)
		}
		s.set(func(s *fakeSystem) { s.fails = nil })
		opens(2, "it answers")
		w.putSecret("login", "3", map[string]string{"token": "newer"})
		wait(2 * time.Minute)
		opens(3, "minutes after the Secret has changed")
		if s.resumes() != s {
			t.Error("a system that is opened anew does not take over what was known")
		}
		p = p.DeepCopy()
		p.Generation++
		opens(4, "the policy has changed")
		if _, closed := s.count(); closed != 3 {
			t.Errorf("closed %d of the 3 that were replaced", closed)
		}
		step := eviction.Preparation{Name: "CleanOut"}
		if _, err := k.Prepare(t.Context(), of(p), step); err != nil {
			t.Error(err)
		}
		if undone, err := k.Undo(t.Context(), of(p), step); !undone.Done || err != nil {
			t.Errorf("undone %+v, %v", undone, err)
		}
		if got := w.opens(); got != 4 {
			t.Errorf("steps have opened %d connections of their own", got-4)
		}
	})
}

func TestWhatIsMissingIsNamed(t *testing.T) {
	ca := v1alpha1.SecretKey{Name: "tls", Key: "ca.crt"}
	tests := []struct {
		name   string
		secret map[string]string
		change func(*v1alpha1.HTTP)
		want   string
	}{{
		name:   "no Secret",
		change: func(h *v1alpha1.HTTP) { h.CA = &ca },
		want:   `the Secret "tls", which the policy refers to, does not exist in namespace db: create it, or name another in the policy`,
	}, {
		name:   "no such entry",
		secret: map[string]string{"other": ""},
		change: func(h *v1alpha1.HTTP) { h.CA = &ca },
		want:   `the Secret "tls", which the policy refers to, has no entry "ca.crt": add it, or name another in the policy`,
	}, {
		name:   "no certificate",
		secret: map[string]string{"ca.crt": "???"},
		change: func(h *v1alpha1.HTTP) { h.CA = &ca },
		want:   `entry "ca.crt" of the Secret "tls" holds no certificate in PEM`,
	}, {
		name:   "no pair",
		secret: map[string]string{"tls.crt": "???", "tls.key": "???"},
		change: func(h *v1alpha1.HTTP) { h.ClientCertificate = &v1alpha1.SecretName{Name: "tls"} },
		want:   `reading the client certificate in the Secret "tls": tls: failed to find any PEM data in certificate input`,
	}}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newStage()
			k, p := w.observer(), w.policy("a", &fakeSystem{})
			test.change(p.Spec.System.HTTP)
			if test.secret != nil {
				w.putSecret("tls", "1", test.secret)
			}
			if got := k.Evidence(t.Context(), of(p), 0, time.Second).Error; got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

// A ConfigMap that the spec refers to is read from the policy's namespace, and one that has changed opens the system anew.
func TestConfigMaps(t *testing.T) {
	key := v1alpha1.ConfigMapKey{Name: "db-config", Key: "cluster-file"}
	maps := map[snapshot.Key]*corev1.ConfigMap{}
	k := &Observer{config: ObserverConfig{FDBCLI: "/fdbcli", ConfigMap: func(_ context.Context, key snapshot.Key) (*corev1.ConfigMap, error) {
		if maps[key] == nil {
			return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, key.Name)
		}
		return maps[key], nil
	}}}
	access := func() (system.Access, string, error) {
		return k.access(t.Context(), &Source{Namespace: "db", Name: "fdb"}, system.References{ConfigMaps: []v1alpha1.ConfigMapKey{key}})
	}
	want := `the ConfigMap "db-config", which the policy refers to, does not exist in namespace db: create it, or name another in the policy`
	if _, _, err := access(); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	at := snapshot.Key{Namespace: "db", Name: "db-config"}
	maps[at] = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "db-config", ResourceVersion: "1"}}
	want = `the ConfigMap "db-config", which the policy refers to, has no entry "cluster-file": add it, or name another in the policy`
	if _, _, err := access(); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	maps[at].Data = map[string]string{"cluster-file": "a:b@10.0.0.1:4500"}
	found, version, err := access()
	if err != nil || found.ConfigMaps[key] != "a:b@10.0.0.1:4500" || found.FDBCLI != "/fdbcli" || found.Namespace != "db" || found.Name != "fdb" {
		t.Errorf("%+v %v", found, err)
	}
	maps[at].ResourceVersion = "2"
	if _, next, err := access(); err != nil || next == version {
		t.Errorf("a ConfigMap that has changed has version %q, and had %q: %v", next, version, err)
	}
}

func TestEndpoints(t *testing.T) {
	tests := []struct {
		access v1alpha1.Access
		want   []string
	}{
		{v1alpha1.Access{Endpoints: []string{"http://a", "http://b"}}, []string{"http://a", "http://b"}},
		{v1alpha1.Access{Service: &v1alpha1.Service{Name: "db", Port: 8529}}, []string{"https://db.prod.svc:8529"}},
		{v1alpha1.Access{Service: &v1alpha1.Service{Name: "db", Port: 80, Scheme: "http"}}, []string{"http://db.prod.svc:80"}},
	}
	for _, test := range tests {
		if diff := cmp.Diff(test.want, endpoints(&test.access, "prod")); diff != "" {
			t.Error(diff)
		}
	}
}

func TestSystemsAreOnTheMachineOnlyWhereTheyMayBe(t *testing.T) {
	for _, loopback := range []bool{false, true} {
		w := newStage()
		k := w.observer()
		k.config.Loopback = loopback
		k.Evidence(t.Context(), of(w.policy("a", &fakeSystem{})), 0, 0)
		if w.opened[0].Loopback != loopback {
			t.Errorf("opened with %t, want %t", w.opened[0].Loopback, loopback)
		}
	}
}

// What calls for steps, for the list of members and for what is on members take counts while they last.
func TestCallsTakeMemory(t *testing.T) {
	w, s := newStage(), &fakeSystem{}
	k, p := w.observer(), w.policy("a", s)
	calls := map[string]func() error{
		"Prepare":        func() error { _, err := k.Prepare(t.Context(), of(p), eviction.Preparation{}); return err },
		"Undo":           func() error { _, err := k.Undo(t.Context(), of(p), eviction.Preparation{}); return err },
		"Listed":         func() error { _, err := k.Listed(t.Context(), of(p), system.Member{}, nil); return err },
		"Leave":          func() error { _, err := k.Leave(t.Context(), of(p), system.Member{}, nil); return err },
		"Join":           func() error { _, err := k.Join(t.Context(), of(p), system.Member{}, nil); return err },
		"List":           func() error { _, err := k.List(t.Context(), of(p)); return err },
		"Admit":          func() error { _, err := k.Admit(t.Context(), of(p), "", nil); return err },
		"Expel":          func() error { _, err := k.Expel(t.Context(), of(p), nil); return err },
		"Contents":       func() error { _, err := k.Contents(t.Context(), of(p), nil); return err },
		"Form":           func() error { _, err := k.Form(t.Context(), of(p), nil); return err },
		"Lead":           func() error { _, err := k.Lead(t.Context(), of(p)); return err },
		"Empty":          func() error { _, err := k.Empty(t.Context(), of(p), system.Member{}); return err },
		"Refill":         func() error { _, err := k.Refill(t.Context(), of(p), system.Member{}); return err },
		"Maintain":       func() error { _, err := k.Maintain(t.Context(), of(p), "", 0); return err },
		"EndMaintenance": func() error { _, err := k.EndMaintenance(t.Context(), of(p), ""); return err },
	}
	for name, call := range calls {
		s.bytes = DefaultMemory / 4
		for range 8 {
			if err := call(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if k.budget.used != 0 || len(k.budget.meters) != 0 {
			t.Errorf("%s has ended, and %d bytes of %d meters are taken", name, k.budget.used, len(k.budget.meters))
		}
		s.bytes = 2 * DefaultMemory
		if err := call(); !errors.Is(err, system.ErrTooLarge) {
			t.Errorf("%s takes more than there is: %v", name, err)
		}
	}
}

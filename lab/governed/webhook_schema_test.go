package governed

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
)

// TestPolicySchema asks the apiserver which policies it takes, before any webhook is asked.
func TestPolicySchema(t *testing.T) {
	t.Parallel()
	r := newRecorder(t)
	ns := r.namespace(t, false)
	for name, test := range map[string]struct {
		change func(*v1alpha1.EvictionPolicySpec)
		want   string
	}{
		"the defaults": {change: func(*v1alpha1.EvictionPolicySpec) {}},
		"no system":    {change: func(s *v1alpha1.EvictionPolicySpec) { s.System.HTTP = nil }, want: "spec.system in body should have at least 1 properties"},
		"two systems":  {change: func(s *v1alpha1.EvictionPolicySpec) { s.System.Etcd = &v1alpha1.Etcd{} }, want: "spec.system: Too many: 2"},
		"the shortest": {change: func(s *v1alpha1.EvictionPolicySpec) {
			s.Evidence.MaxAge.Duration, s.Evidence.Timeout.Duration = time.Second, time.Second
		}},
		"the longest": {change: func(s *v1alpha1.EvictionPolicySpec) {
			s.Evidence.MaxAge.Duration, s.Evidence.Timeout.Duration = time.Minute, 30*time.Second
		}},
		"nothing is so young":   {change: func(s *v1alpha1.EvictionPolicySpec) { s.Evidence.MaxAge.Duration = time.Millisecond }, want: "spec.evidence.maxAge: Invalid value"},
		"as old as yesterday":   {change: func(s *v1alpha1.EvictionPolicySpec) { s.Evidence.MaxAge.Duration = 24 * time.Hour }, want: "must be from 1s to 1m"},
		"patience without end":  {change: func(s *v1alpha1.EvictionPolicySpec) { s.Evidence.Timeout.Duration = time.Minute }, want: "must be from 1s to 30s"},
		"no patience":           {change: func(s *v1alpha1.EvictionPolicySpec) { s.Evidence.Timeout.Duration = time.Millisecond }, want: "must be from 1s to 30s"},
		"to be tried":           {change: func(s *v1alpha1.EvictionPolicySpec) { s.Mode = v1alpha1.ModeAudit }},
		"no mode that there is": {change: func(s *v1alpha1.EvictionPolicySpec) { s.Mode = "Disabled" }, want: "spec.mode: Unsupported value"},
		"FoundationDB":          {change: foundationDB(nil)},
		"… in a hurry":          {change: foundationDB(func(s *v1alpha1.EvictionPolicySpec) { s.Evidence = v1alpha1.EvidenceLimits{} }), want: "system foundationdb needs evidence.timeout of at least 15s"},
		"… of no version": {
			change: foundationDB(func(s *v1alpha1.EvictionPolicySpec) { s.System.FoundationDB.Version = "latest" }), want: "spec.system.foundationdb.version",
		},
		"… of no redundancy": {
			change: foundationDB(func(s *v1alpha1.EvictionPolicySpec) { s.System.FoundationDB.Redundancy = "five" }), want: "spec.system.foundationdb.redundancy",
		},
		"… without a file": {
			change: foundationDB(func(s *v1alpha1.EvictionPolicySpec) { s.System.FoundationDB.ClusterFile.ConfigMap = nil }), want: "spec.system.foundationdb.clusterFile",
		},
		"… with two": {
			change: foundationDB(func(s *v1alpha1.EvictionPolicySpec) {
				s.System.FoundationDB.ClusterFile.Secret = &v1alpha1.SecretKey{Name: "db", Key: "file"}
			}), want: "spec.system.foundationdb.clusterFile",
		},
		"… lost at once": {
			change: foundationDB(func(s *v1alpha1.EvictionPolicySpec) {
				s.System.FoundationDB.Waits.Missing = &metav1.Duration{Duration: 119 * time.Second}
			}), want: "must be from 2m to 1h",
		},
		"… lost after two minutes": {
			change: foundationDB(func(s *v1alpha1.EvictionPolicySpec) {
				s.System.FoundationDB.Waits.Missing = &metav1.Duration{Duration: 2 * time.Minute}
			}),
		},
		"… without a wait": {
			change: foundationDB(func(s *v1alpha1.EvictionPolicySpec) {
				s.System.FoundationDB.Waits.ExcludeAfterRecovery = &metav1.Duration{}
			}),
		},
		"a Service":             {change: behind("db-0")},
		"a Service of a domain": {change: behind("db.example.com/x"), want: "service.name"},
	} {
		t.Run(name, func(t *testing.T) {
			policy := examplePolicy(ns, "db")
			test.change(&policy.Spec)
			err := r.client.Create(t.Context(), policy, client.DryRunAll)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if err == nil && (policy.Spec.Mode == v1alpha1.ModeEnforce) == (name == "to be tried") {
				t.Errorf("the mode is %q", policy.Spec.Mode)
			}
		})
	}
}

func behind(service string) func(*v1alpha1.EvictionPolicySpec) {
	return func(s *v1alpha1.EvictionPolicySpec) {
		s.System.HTTP.Endpoints, s.System.HTTP.Service = nil, &v1alpha1.Service{Name: service, Port: 1}
	}
}

// foundationDB is a policy of FoundationDB that is as it should be, but for a change.
func foundationDB(change func(*v1alpha1.EvictionPolicySpec)) func(*v1alpha1.EvictionPolicySpec) {
	return func(s *v1alpha1.EvictionPolicySpec) {
		s.System = v1alpha1.System{FoundationDB: &v1alpha1.FoundationDB{
			ClusterFile: v1alpha1.ClusterFile{ConfigMap: &v1alpha1.ConfigMapKey{Name: "db-config", Key: "cluster-file"}}, Version: "7.3.63", Redundancy: v1alpha1.RedundancyDouble,
		}}
		s.Evidence = v1alpha1.EvidenceLimits{MaxAge: metav1.Duration{Duration: 30 * time.Second}, Timeout: metav1.Duration{Duration: 20 * time.Second}}
		if change != nil {
			change(s)
		}
	}
}

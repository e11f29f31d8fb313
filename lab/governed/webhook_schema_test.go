package governed

import (
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
)

// TestPolicySchema asks the apiserver which policies it takes, before any webhook is asked.
func TestPolicySchema(t *testing.T) {
	r := newRecorder(t)
	ns := r.namespace(t, false)
	for name, test := range map[string]struct {
		change func(*v1alpha1.System)
		want   string
	}{
		"the defaults":          {change: func(*v1alpha1.System) {}},
		"the shortest":          {change: func(s *v1alpha1.System) { s.MaxAge.Duration, s.Timeout.Duration = time.Second, time.Second }},
		"the longest":           {change: func(s *v1alpha1.System) { s.MaxAge.Duration, s.Timeout.Duration = time.Minute, 30*time.Second }},
		"nothing is so young":   {change: func(s *v1alpha1.System) { s.MaxAge.Duration = time.Millisecond }, want: "spec.system.maxAge: Invalid value"},
		"as old as yesterday":   {change: func(s *v1alpha1.System) { s.MaxAge.Duration = 24 * time.Hour }, want: "must be from 1s to 1m"},
		"patience without end":  {change: func(s *v1alpha1.System) { s.Timeout.Duration = time.Minute }, want: "must be from 1s to 30s"},
		"no patience":           {change: func(s *v1alpha1.System) { s.Timeout.Duration = time.Millisecond }, want: "must be from 1s to 30s"},
		"a Service":             {change: behind("db-0")},
		"a Service of a domain": {change: behind("db.example.com/x"), want: "service.name"},
	} {
		t.Run(name, func(t *testing.T) {
			policy := examplePolicy(ns, "db")
			test.change(&policy.Spec.System)
			err := r.client.Create(t.Context(), policy, client.DryRunAll)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func behind(service string) func(*v1alpha1.System) {
	return func(s *v1alpha1.System) {
		s.HTTP.Endpoints, s.HTTP.Service = nil, &v1alpha1.Service{Name: service, Port: 1}
	}
}

package webhook

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"usher.sh/usher/api/v1alpha1"
)

func lockPolicy(change ...func(*v1alpha1.EvictionPolicySpec)) *v1alpha1.EvictionPolicy {
	policy := testPolicy()
	policy.Spec.ServiceAccountName = "agents"
	policy.Spec.NodeLock = &v1alpha1.NodeLock{StateLabel: "maintenance.example.com/agent", LockPrefix: "lock.example.com", Holders: []string{"replica"}}
	for _, f := range change {
		f(&policy.Spec)
	}
	return policy
}

// A holder is created so that the scheduler places it where the waiter does its work, whatever else it asks for.
func TestHoldersAreCreatedWithAnAffinity(t *testing.T) {
	const serves = `{"key":"maintenance.example.com/agent","operator":"In","values":["False"]}`
	const terms = `{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[`
	const field = `"matchFields":[{"key":"metadata.name","operator":"In","values":["n1"]}]`
	for name, c := range map[string]struct {
		policy *v1alpha1.EvictionPolicy
		spec   string
		want   string // spec.affinity
	}{
		"none":                    {spec: `{}`, want: terms + `{"matchExpressions":[` + serves + `]}]}}}`},
		"an affinity to pods":     {spec: `{"affinity":{"podAffinity":{}}}`, want: `{"podAffinity":{},` + terms[1:] + `{"matchExpressions":[` + serves + `]}]}}}`},
		"preferred nodes":         {spec: `{"affinity":{"nodeAffinity":{}}}`, want: terms + `{"matchExpressions":[` + serves + `]}]}}}`},
		"a pod of a DaemonSet":    {spec: `{"affinity":` + terms + `{` + field + `}]}}}}`, want: terms + `{` + field + `,"matchExpressions":[` + serves + `]}]}}}`},
		"it is there":             {spec: `{"affinity":` + terms + `{` + field + `,"matchExpressions":[` + serves + `]}]}}}}`, want: terms + `{` + field + `,"matchExpressions":[` + serves + `]}]}}}`},
		"it names its node":       {spec: `{"nodeName":"n1"}`},
		"the waiter":              {policy: lockPolicy(func(s *v1alpha1.EvictionPolicySpec) { s.NodeLock.Holders, s.NodeLock.Waiter = nil, "replica" }), spec: `{}`},
		"no nodeLock":             {policy: testPolicy(), spec: `{}`},
		"mode Audit":              {policy: lockPolicy(func(s *v1alpha1.EvictionPolicySpec) { s.Mode = v1alpha1.ModeAudit }), spec: `{}`},
		"one that cannot be used": {policy: lockPolicy(func(s *v1alpha1.EvictionPolicySpec) { s.NodeLock.StateLabel = "kubernetes.io/os" }), spec: `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if c.policy == nil {
				c.policy = lockPolicy()
			}
			w.policies = []*v1alpha1.EvictionPolicy{c.policy}
			before := `{"metadata":{"labels":{"app":"db"}},"spec":` + c.spec + `}`
			got, after := w.post(PathCreate, creationOf("shop", before)), []byte(before)
			if len(got.Patch) > 0 {
				patch, err := jsonpatch.DecodePatch(got.Patch)
				if err != nil {
					t.Fatal(err)
				}
				if after, err = patch.Apply(after); err != nil {
					t.Fatalf("applying %s: %v", got.Patch, err)
				}
			}
			var pod struct{ Spec struct{ Affinity any } }
			if err := json.Unmarshal(after, &pod); err != nil {
				t.Fatal(err)
			}
			var want any
			if c.want != "" {
				if err := json.Unmarshal([]byte(c.want), &want); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(want, pod.Spec.Affinity); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// rights answers that anna has rights, VERB RESOURCE/NAME each.
type rights []string

func (r rights) Review(_ context.Context, spec authorizationv1.SubjectAccessReviewSpec) (bool, string, error) {
	asked := spec.ResourceAttributes
	for _, right := range r {
		if right == asked.Verb+" "+asked.Resource+"/"+asked.Name+" "+asked.Namespace && spec.User == "anna" {
			return true, "", nil
		}
	}
	return false, "", nil
}

// What a namespace's owner writes acts on nodes only where that user may do so too.
func TestNodeLocksTakeTheRightToPatchNodes(t *testing.T) {
	const nodes, account = "patch nodes/ ", "impersonate serviceaccounts/agents shop"
	other := lockPolicy()
	other.Spec.NodeLock.StateLabel = "maintenance.example.com/other"
	suspended := lockPolicy(func(s *v1alpha1.EvictionPolicySpec) { s.Suspend = true })
	without := testPolicy()
	without.Spec.ServiceAccountName = "agents"
	for name, c := range map[string]struct {
		before, policy *v1alpha1.EvictionPolicy
		rights         rights
		want           string // words of a refusal, "" for none
	}{
		"with both":                    {policy: lockPolicy(), rights: rights{nodes, account}},
		"without that to nodes":        {policy: lockPolicy(), rights: rights{account}, want: "anna may not patch nodes"},
		"without that to the account":  {policy: lockPolicy(), rights: rights{nodes}, want: "anna may not impersonate serviceaccounts/agents in namespace shop"},
		"another label":                {before: lockPolicy(), policy: other, want: "anna may not patch nodes"},
		"the same":                     {before: lockPolicy(), policy: lockPolicy()},
		"suspended":                    {before: lockPolicy(), policy: suspended},
		"suspended no longer":          {before: suspended, policy: lockPolicy(), want: "anna may not patch nodes"},
		"taken out":                    {before: lockPolicy(), policy: without},
		"a policy that locks no nodes": {policy: testPolicy()},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.reviewer, w.policies = c.rights, []*v1alpha1.EvictionPolicy{}
			var before runtime.Object
			if c.before != nil {
				before = c.before
			}
			body, err := json.Marshal(admissionv1.AdmissionReview{
				TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
				Request: &admissionv1.AdmissionRequest{
					UID: "r1", Operation: admissionv1.Create, Namespace: "shop", Name: "db", UserInfo: authenticationv1.UserInfo{Username: "anna"},
					Object: runtime.RawExtension{Object: c.policy}, OldObject: runtime.RawExtension{Object: before},
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			answer := w.post(PathPolicy, string(body))
			switch refused := answer.Result.Code == http.StatusForbidden; {
			case refused != (c.want != ""), refused && !strings.Contains(answer.Result.Message, c.want), refused && !strings.Contains(answer.Result.Message, "and nodeLock has Usher do so"):
				t.Errorf("%+v, want %q", answer.Result, c.want)
			}
		})
	}
}

// Two policies whose waiters have one label share it: that is said to who writes the second, and of another tenant's policy no more than that it is there.
func TestAWaitersLabelThatIsShared(t *testing.T) {
	waits := func(namespace, name string, change ...func(*v1alpha1.EvictionPolicySpec)) *v1alpha1.EvictionPolicy {
		policy := lockPolicy(append([]func(*v1alpha1.EvictionPolicySpec){func(s *v1alpha1.EvictionPolicySpec) {
			s.NodeLock.Holders, s.NodeLock.Waiter = nil, "replica"
			s.System.HTTP.Endpoints = []string{"http://" + namespace + name + ":1"}
			s.Members[0].Selector.MatchLabels = map[string]string{"app": name}
		}}, change...)...)
		policy.Namespace, policy.Name = namespace, name
		return policy
	}
	holds := lockPolicy(func(s *v1alpha1.EvictionPolicySpec) {
		s.Members[0].Selector.MatchLabels = map[string]string{"app": "holds"}
	})
	holds.Name, holds.Spec.System.HTTP.Endpoints = "holds", []string{"http://holds:1"}
	for name, c := range map[string]struct {
		other *v1alpha1.EvictionPolicy
		want  string
	}{
		"in its namespace":   {waits("shop", "ovn"), "policy ovn has a waiter with the same"},
		"in another":         {waits("secret", "ovn"), "a policy of another namespace has a waiter with the same"},
		"another label":      {waits("shop", "ovn", func(s *v1alpha1.EvictionPolicySpec) { s.NodeLock.StateLabel = "a.example.com/b" }), ""},
		"that is audited":    {waits("secret", "ovn", func(s *v1alpha1.EvictionPolicySpec) { s.Mode = v1alpha1.ModeAudit }), ""},
		"without a waiter":   {holds, ""},
		"that is itself":     {waits("shop", "neutron"), ""},
		"that locks nothing": {testPolicy(), ""},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := v1alpha1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			h := &policyHandler{Options{Reader: fake.NewClientBuilder().WithScheme(scheme).WithObjects(c.other).Build()}}
			got := h.sharedLabel(t.Context(), "shop", waits("shop", "neutron"))
			if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], c.want)) {
				t.Errorf("warnings %q, want %q", got, c.want)
			}
		})
	}
}

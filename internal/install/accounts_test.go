package install

import (
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// unlimited are the rights to write that no admission policy limits, and why not.
var unlimited = map[string]string{
	"pods/eviction":                   "an Eviction does not show its pod; budgets and verdicts limit it",
	"events":                          "they change nothing",
	"evictions":                       "the manager is the controller of the API",
	"evictionrequests":                "of the manager, which makes them in the names of callers",
	"evictionrequests/status":         "the manager is the controller of the API",
	"evictions/status":                "the manager is the controller of the API",
	"evictionpolicies":                "Usher's own; the manager keeps a finalizer on them",
	"evictionpolicies/status":         "Usher's own",
	"membersets/finalizers":           "the right to say that an object is a MemberSet's",
	"membersets/status":               "Usher's own",
	"nodemaintenances/status":         "Usher's own",
	"replacementrequests":             "Usher's own; the manager keeps a finalizer on them",
	"replacementrequests/status":      "Usher's own",
	"persistentvolumeclaims":          "it deletes them by their UIDs; admission policies do not see which member they were of. Which it creates is limited",
	"subjectaccessreviews":            "they change nothing",
	"tokenreviews":                    "they change nothing",
	"lostnodepolicies/status":         "Usher's own",
	"nodefences":                      "Usher's own; a person's word in them is limited for all users",
	"nodefences/status":               "Usher's own",
	"mutatingwebhookconfigurations":   "by name; admission policies cannot be about them",
	"validatingwebhookconfigurations": "by name; admission policies cannot be about them",
}

// Every right to write in the whole cluster is limited by an admission policy for that account, or has a reason not to be.
func TestAccountsAreLimited(t *testing.T) {
	limited := map[string][]string{} // resources by account
	bound := map[string]bool{}
	roles := map[string]rbacv1.ClusterRole{}
	for _, object := range objects(t, Options{Agent: true, NodeNotices: []string{"ec2"}, Notices: true, ClusterAPI: true, MemberSets: true, Namespace: "guards"}) {
		convert := func(into any) {
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into); err != nil {
				t.Fatal(err)
			}
		}
		switch object.GetKind() {
		case "ValidatingAdmissionPolicy":
			var policy admissionv1.ValidatingAdmissionPolicy
			convert(&policy)
			if policy.Spec.FailurePolicy == nil || *policy.Spec.FailurePolicy != admissionv1.Fail {
				t.Errorf("%s fails open", policy.Name)
			}
			_, account, _ := strings.Cut(policy.Spec.MatchConditions[0].Expression, `== "system:serviceaccount:`)
			for _, rule := range policy.Spec.MatchConstraints.ResourceRules {
				limited[strings.Trim(account, `"`)] = append(limited[strings.Trim(account, `"`)], rule.Resources...)
			}
			bound[policy.Name] = bound[policy.Name] || false
		case "ValidatingAdmissionPolicyBinding":
			var binding admissionv1.ValidatingAdmissionPolicyBinding
			convert(&binding)
			bound[binding.Spec.PolicyName] = slices.Equal(binding.Spec.ValidationActions, []admissionv1.ValidationAction{admissionv1.Deny})
		case "ClusterRole":
			var role rbacv1.ClusterRole
			convert(&role)
			roles[role.Name] = role
		}
	}
	for policy, denies := range bound {
		if !denies {
			t.Errorf("%s denies nothing", policy)
		}
	}
	for role, account := range map[string]string{
		"usher-agent": "guards-agent:usher-agent", "usher-agent-notices": "guards-agent:usher-agent", "usher-manager": "guards:usher-manager", "usher-lost-nodes": "guards:usher-manager",
		"usher-maintenance": "guards:usher-manager", "usher-notices": "guards:usher-manager", "usher-machines": "guards:usher-manager", "usher-replacements": "guards:usher-manager", "usher-member-sets": "guards:usher-manager",
		"usher-cluster-files": "guards:usher-manager",
	} {
		for _, rule := range roles[role].Rules {
			if !slices.ContainsFunc(rule.Verbs, func(verb string) bool { return !slices.Contains([]string{"get", "list", "watch"}, verb) }) {
				continue
			}
			for _, resource := range rule.Resources {
				if unlimited[resource] == "" && !slices.Contains(limited[account], resource) {
					t.Errorf("%s may %v %s, and nothing limits it", account, rule.Verbs, resource)
				}
			}
		}
	}
}

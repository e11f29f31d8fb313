package memberset

import (
	"strings"
	"testing"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/memberset"
)

// What helps is by who has refused: RBAC, a quota, or other admission.
func TestRefusal(t *testing.T) {
	for name, test := range map[string]struct {
		code    answers.Code
		message string
		remedy  string
		never   bool
	}{
		"RBAC":          {answers.Forbidden, `pods is forbidden: User "usher" cannot create resource "pods" in API group "" in the namespace "shop"`, "usher install --member-sets; or ", false},
		"a quota":       {answers.Denied, `pods "kv-server-1" is forbidden: exceeded quota: pods, requested: pods=1, used: pods=2, limited: pods=2`, "raise the ResourceQuota, or ask for less", false},
		"Pod Security":  {answers.Denied, `pods "kv-server-1" is forbidden: violates PodSecurity "restricted:latest": privileged`, "change what the template of its group asks for", false},
		"a webhook":     {answers.Denied, "admission webhook denied the request", "change what the template of its group asks for", false},
		"what is wrong": {answers.Rejected, `Pod "kv-server-1" is invalid: spec.containers[0].image: Required value`, "correct its template in spec.groups", true},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := newReconciler(t)
			b := r.refusal(&memberset.Action{Kind: memberset.MakePod, Member: "kv-server-1"}, &answers.Answer{Code: test.code, Message: test.message})
			if b.Reason != memberset.WriteNotAccepted || !strings.HasPrefix(b.Remedy, test.remedy) || b.Never != test.never || b.Message != "makePod of kv-server-1 was not accepted: "+test.message {
				t.Errorf("it says %+v", b)
			}
		})
	}
}

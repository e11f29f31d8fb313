package webhook

import (
	"encoding/json"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
)

func creationOf(namespace, object string) string {
	return `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"r1","operation":"CREATE","namespace":"` + namespace + `",` +
		`"resource":{"group":"","version":"v1","resource":"pods"},"object":` + object + `}}`
}

const (
	toleratesNotReady    = `{"effect":"NoExecute","key":"node.kubernetes.io/not-ready","operator":"Exists","tolerationSeconds":15}`
	toleratesUnreachable = `{"effect":"NoExecute","key":"node.kubernetes.io/unreachable","operator":"Exists"}`
	ourEntry             = `{"name":"responder.usher.sh/governor","priority":10000}`
)

// plugin is what DefaultTolerationSeconds adds before Usher is asked.
const plugin = `{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300},` +
	`{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}`

func TestCreate(t *testing.T) {
	marked := func(name, spec string) string {
		return `{"metadata":{` + name + `"labels":{"app":"db","usher.sh/policy":"db"}},"spec":` + spec + `}`
	}
	cases := map[string]struct{ before, after string }{
		"a bare member": {
			`{"metadata":{"generateName":"db-","labels":{"app":"db"}},"spec":{}}`,
			marked(`"generateName":"db-",`, `{"tolerations":[`+toleratesNotReady+`,`+toleratesUnreachable+`],"evictionResponders":[`+ourEntry+`]}`),
		},
		"after the plugin": {
			`{"metadata":{"labels":{"app":"db"}},"spec":{"tolerations":[` + plugin + `]}}`,
			marked("", `{"tolerations":[`+toleratesNotReady+`,`+toleratesUnreachable+`],"evictionResponders":[`+ourEntry+`]}`),
		},
		"the author's tolerations stay": {
			`{"metadata":{"labels":{"app":"db"}},"spec":{"tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":60,"unknown":1}]}}`,
			marked("", `{"tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":60,"unknown":1},`+toleratesUnreachable+`],"evictionResponders":[`+ourEntry+`]}`),
		},
		"fields that we do not know": {
			`{"metadata":{"labels":{"app":"db"},"tomorrow":1},"spec":{"tolerations":[` + plugin + `],"tomorrow":{"a":[1]}}}`,
			`{"metadata":{"labels":{"app":"db","usher.sh/policy":"db"},"tomorrow":1},"spec":{"tolerations":[` + toleratesNotReady + `,` + toleratesUnreachable + `],"evictionResponders":[` + ourEntry + `],"tomorrow":{"a":[1]}}}`,
		},
		"other responders": {
			`{"metadata":{"labels":{"app":"db"}},"spec":{"tolerations":[` + plugin + `],"evictionResponders":[{"name":"a.example/b","priority":7}]}}`,
			marked("", `{"tolerations":[`+toleratesNotReady+`,`+toleratesUnreachable+`],"evictionResponders":[{"name":"a.example/b","priority":7},`+ourEntry+`]}`),
		},
		"a pod of a group": {
			`{"metadata":{"labels":{"app":"db"}},"spec":{"tolerations":[` + plugin + `],"schedulingGroup":{"podGroupName":"g"}}}`,
			marked("", `{"tolerations":[`+toleratesNotReady+`,`+toleratesUnreachable+`],"schedulingGroup":{"podGroupName":"g"}}`),
		},
		"asked again": {
			marked("", `{"tolerations":[`+toleratesNotReady+`,`+toleratesUnreachable+`],"evictionResponders":[`+ourEntry+`]}`),
			marked("", `{"tolerations":[`+toleratesNotReady+`,`+toleratesUnreachable+`],"evictionResponders":[`+ourEntry+`]}`),
		},
		"a pod of no policy":   {`{"metadata":{"name":"web","labels":{"app":"web"}},"spec":{}}`, `{"metadata":{"name":"web","labels":{"app":"web"}},"spec":{}}`},
		"a pod without labels": {`{"metadata":{"name":"web"},"spec":{}}`, `{"metadata":{"name":"web"},"spec":{}}`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := newWorld(t).post(PathCreate, creationOf("shop", c.before))
			if !got.Allowed {
				t.Fatalf("refused: %+v", got.Result)
			}
			after := []byte(c.before)
			if len(got.Patch) > 0 {
				patch, err := jsonpatch.DecodePatch(got.Patch)
				if err != nil {
					t.Fatal(err)
				}
				if after, err = patch.Apply(after); err != nil {
					t.Fatalf("applying %s: %v", got.Patch, err)
				}
			}
			if diff := cmp.Diff(parsed(t, []byte(c.after)), parsed(t, after)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func parsed(t *testing.T, text []byte) map[string]any {
	t.Helper()
	var object map[string]any
	if err := json.Unmarshal(text, &object); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return object
}

// TestCreateNeverRefuses: not even what cannot be read.
func TestCreateNeverRefuses(t *testing.T) {
	for name, body := range map[string]string{
		"no object":             creationOf("shop", `null`),
		"an object of no kind":  creationOf("shop", `7`),
		"labels of no kind":     creationOf("shop", `{"metadata":{"labels":7}}`),
		"an unknown namespace":  creationOf("other", `{"metadata":{"labels":{"app":"db"}}}`),
		"no namespace anywhere": creationOf("", `{"metadata":{"labels":{"app":"db"}}}`),
	} {
		t.Run(name, func(t *testing.T) {
			if got := newWorld(t).post(PathCreate, body); !got.Allowed || len(got.Patch) > 0 {
				t.Errorf("allowed: %t, patch %s", got.Allowed, got.Patch)
			}
		})
	}
}

func TestPolicyIsChecked(t *testing.T) {
	policyOf := func(namespace, name, app, expression string) string {
		policy := testPolicy()
		policy.Name, policy.Namespace = name, namespace
		policy.Spec.Members[0].Selector.MatchLabels["app"] = app
		policy.Spec.System.HTTP.Endpoints = []string{"http://" + app + ":1"}
		policy.Spec.Roles[0].Evict.Rules[0].Expression = expression
		raw, err := json.Marshal(policy)
		if err != nil {
			t.Fatal(err)
		}
		return `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"r1","operation":"CREATE","namespace":"` + namespace +
			`","name":"` + name + `","object":` + string(raw) + `}}`
	}
	cases := map[string]struct {
		body, says, field string
		allowed           bool
		warns             string
	}{
		"good":                    {body: policyOf("shop", "other", "other", "system.green"), allowed: true},
		"itself":                  {body: policyOf("shop", "db", "db", "system.green"), allowed: true},
		"no CEL":                  {body: policyOf("shop", "other", "other", "system.green &&"), says: "evict.rules[0].expression", field: "spec.roles[0].evict.rules[0].expression"},
		"no such fact":            {body: policyOf("shop", "other", "other", "member.none == 1"), says: "none", field: "spec.roles[0].evict.rules[0].expression"},
		"the same pods as others": {body: policyOf("shop", "other", "db", "system.green"), allowed: true, warns: "spec.members[0] of policy db have the same selector"},
		"kube-system":             {body: policyOf("kube-system", "other", "other", "system.green"), says: "cannot be governed", field: "metadata.namespace"},
		"our own namespace":       {body: policyOf("usher-system", "other", "other", "system.green"), says: "cannot be governed", field: "metadata.namespace"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := newWorld(t).post(PathPolicy, c.body)
			if got.Allowed != c.allowed {
				t.Fatalf("allowed: %t, %+v", got.Allowed, got.Result)
			}
			if !c.allowed && (got.Result.Code != 422 || !strings.Contains(got.Result.Message, c.says) || got.Result.Details.Causes[0].Field != c.field) {
				t.Errorf("refused with %+v", got.Result)
			}
			if warned := strings.Join(got.Warnings, ""); c.warns == "" && warned != "" || !strings.Contains(warned, c.warns) {
				t.Errorf("warnings %q, want %q", warned, c.warns)
			}
		})
	}
}

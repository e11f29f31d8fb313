package webhook

import (
	"encoding/json"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/api/v1alpha1"
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
	const both, notReady, unreachable = `{"notReady":{"seconds":15},"unreachable":{"forever":true},"mode":"KeepOwn"}`, `{"notReady":{"seconds":15},"mode":"KeepOwn"}`, `{"unreachable":{"forever":true},"mode":"KeepOwn"}`
	recorded := func(record, name, spec string) string {
		text, _ := json.Marshal(record)
		return `{"metadata":{` + name + `"annotations":{"usher.sh/tolerations":` + string(text) + `},"labels":{"app":"db","usher.sh/policy":"db"}},"spec":` + spec + `}`
	}
	marked := func(name, spec string) string { return recorded(both, name, spec) }
	set := `{"tolerations":[` + toleratesNotReady + `,` + toleratesUnreachable + `],"evictionResponders":[` + ourEntry + `]}`
	const authors = `{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":60,"unknown":1}`
	cases := map[string]struct {
		before, after string
		override      bool
	}{
		"a bare member": {before: `{"metadata":{"generateName":"db-","labels":{"app":"db"}},"spec":{}}`, after: marked(`"generateName":"db-",`, set)},
		"after the plugin": {
			before: `{"metadata":{"labels":{"app":"db"}},"spec":{"tolerations":[` + plugin + `]}}`, after: marked("", set),
		},
		"the author's tolerations stay": {
			before: `{"metadata":{"labels":{"app":"db"}},"spec":{"tolerations":[` + authors + `]}}`,
			after:  recorded(unreachable, "", `{"tolerations":[`+authors+`,`+toleratesUnreachable+`],"evictionResponders":[`+ourEntry+`]}`),
		},
		"the author's tolerations, overridden": {
			override: true,
			before:   `{"metadata":{"labels":{"app":"db"}},"spec":{"tolerations":[` + authors + `]}}`,
			after: recorded(strings.Replace(both, "KeepOwn", "Override", 1), "",
				`{"tolerations":[`+strings.Replace(authors, "60", "15", 1)+`,`+toleratesUnreachable+`],"evictionResponders":[`+ourEntry+`]}`),
		},
		"what tolerates everything, overridden": {
			override: true,
			before:   `{"metadata":{"labels":{"app":"db"}},"spec":{"tolerations":[{"operator":"Exists"}]}}`,
			after: recorded(`{"notReady":{"seconds":15},"mode":"Override"}`, "",
				`{"tolerations":[`+toleratesNotReady+`,{"operator":"Exists"}],"evictionResponders":[`+ourEntry+`]}`),
		},
		"fields that we do not know": {
			before: `{"metadata":{"labels":{"app":"db"},"tomorrow":1},"spec":{"tolerations":[` + plugin + `],"tomorrow":{"a":[1]}}}`,
			after:  marked(`"tomorrow":1,`, `{"tolerations":[`+toleratesNotReady+`,`+toleratesUnreachable+`],"evictionResponders":[`+ourEntry+`],"tomorrow":{"a":[1]}}`),
		},
		"other responders": {
			before: `{"metadata":{"labels":{"app":"db"}},"spec":{"tolerations":[` + plugin + `],"evictionResponders":[{"name":"a.example/b","priority":7}]}}`,
			after:  marked("", `{"tolerations":[`+toleratesNotReady+`,`+toleratesUnreachable+`],"evictionResponders":[{"name":"a.example/b","priority":7},`+ourEntry+`]}`),
		},
		"a pod of a group": {
			before: `{"metadata":{"labels":{"app":"db"}},"spec":{"tolerations":[` + plugin + `],"schedulingGroup":{"podGroupName":"g"}}}`,
			after:  marked("", `{"tolerations":[`+toleratesNotReady+`,`+toleratesUnreachable+`],"schedulingGroup":{"podGroupName":"g"}}`),
		},
		"asked again": {before: marked("", set), after: marked("", set)},
		"set for the role as it was": {
			before: recorded(`{"notReady":{"seconds":40}}`, "", strings.Replace(set, `"tolerationSeconds":15`, `"tolerationSeconds":40`, 1)),
			after:  recorded(notReady, "", set),
		},
		"a pod of no policy":   {before: `{"metadata":{"name":"web","labels":{"app":"web"}},"spec":{}}`, after: `{"metadata":{"name":"web","labels":{"app":"web"}},"spec":{}}`},
		"a pod without labels": {before: `{"metadata":{"name":"web"},"spec":{}}`, after: `{"metadata":{"name":"web"},"spec":{}}`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if c.override {
				policy := testPolicy()
				policy.Spec.Members[0].Tolerations = v1alpha1.TolerationsOverride
				w.policies = []*v1alpha1.EvictionPolicy{policy}
			}
			got := w.post(PathCreate, creationOf("shop", c.before))
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

package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// setFile is the manifest of a set whose pods' images are of a version.
func setFile(version, extra string) string {
	return `apiVersion: usher.sh/v1alpha1
kind: MemberSet
metadata: {namespace: shop, name: web}
spec:
  system: {kubernetes: {}}
  ` + extra + `
  groups:
  - name: app
    role: workload
    replicas: 2
    template: {spec: {containers: [{name: app, image: "app:` + version + `", resources: {requests: {cpu: 500m}}}]}}
`
}

// setServer is an apiserver with what is asked for a plan. It refuses dry runs with the code that is given, and else accepts what is written.
type setServer struct {
	there   map[string]any // the set; nil: there is none
	pods    []any
	quotas  []any
	file    bool              // another has made the ConfigMap fdb
	answers map[string]string // by method and path; "" of a code stands for what is not served
	wrote   []string
}

func (s *setServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	send := func(code int, object any) {
		w.WriteHeader(code)
		json.NewEncoder(w).Encode(object) //nolint:errcheck,errchkjson // the test sees what is missing
	}
	refuse := func(code int, reason, message string) {
		send(code, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message})
	}
	if r.Method != http.MethodGet {
		s.wrote = append(s.wrote, r.Method+" "+r.URL.Query().Get("dryRun"))
	}
	if answer, found := s.answers[r.Method+" "+r.URL.Path]; found {
		reason, message, _ := strings.Cut(answer, ": ")
		code := map[string]int{"Forbidden": http.StatusForbidden, "Invalid": http.StatusUnprocessableEntity, "NotFound": http.StatusNotFound}[reason]
		if code == 0 {
			http.NotFound(w, r)
			return
		}
		refuse(code, reason, message)
		return
	}
	const sets = "/apis/usher.sh/v1alpha1/namespaces/shop/membersets"
	list := func(kind, version string, items []any) {
		send(http.StatusOK, map[string]any{"kind": kind, "apiVersion": version, "metadata": map[string]any{}, "items": append([]any{}, items...)})
	}
	switch r.Method + " " + r.URL.Path {
	case "GET " + sets + "/web":
		if s.there == nil {
			refuse(http.StatusNotFound, "NotFound", "membersets.usher.sh \"web\" not found")
			return
		}
		send(http.StatusOK, s.there)
	case "POST " + sets, "PATCH " + sets + "/web":
		var written map[string]any
		json.NewDecoder(r.Body).Decode(&written) //nolint:errcheck // the test sees what is missing
		if r.Method == http.MethodPatch {
			changed := maps.Clone(s.there)
			if spec, is := written["spec"]; is {
				changed["spec"] = spec
			}
			changed["spec"].(map[string]any)["system"] = map[string]any{"kubernetes": map[string]any{}}
			written = changed
		}
		send(http.StatusOK, written)
	case "GET /api/v1/namespaces/shop/pods":
		list("PodList", "v1", s.pods)
	case "GET /api/v1/namespaces/shop/resourcequotas":
		list("ResourceQuotaList", "v1", s.quotas)
	case "GET /api/v1/namespaces/shop/services":
		list("ServiceList", "v1", nil)
	case "GET /api/v1/namespaces/shop/persistentvolumeclaims":
		list("PersistentVolumeClaimList", "v1", nil)
	case "GET /apis/usher.sh/v1alpha1/namespaces/shop/replacementrequests":
		list("ReplacementRequestList", "usher.sh/v1alpha1", nil)
	case "GET /apis/usher.sh/v1alpha1/namespaces/shop/evictionpolicies":
		list("EvictionPolicyList", "usher.sh/v1alpha1", nil)
	case "GET /api/v1/namespaces/shop/configmaps/fdb":
		if s.file {
			send(http.StatusOK, map[string]any{"kind": "ConfigMap", "apiVersion": "v1", "metadata": map[string]any{"namespace": "shop", "name": "fdb"}})
			return
		}
		refuse(http.StatusNotFound, "NotFound", "configmaps \"fdb\" not found")
	default:
		refuse(http.StatusNotFound, "NotFound", r.Method+" "+r.URL.Path+" is not known to the test")
	}
}

// running is a set with two members, whose pods are made of another template.
func running() *setServer {
	s := &setServer{there: map[string]any{
		"apiVersion": "usher.sh/v1alpha1", "kind": "MemberSet",
		"metadata": map[string]any{"namespace": "shop", "name": "web", "uid": "set"},
		"spec":     map[string]any{"system": map[string]any{"kubernetes": map[string]any{}}, "groups": []any{}},
		"status":   map[string]any{"memberCount": 2, "formed": map[string]any{"time": "2026-01-01T00:00:00Z"}},
	}}
	var members []any
	for i := 1; i <= 2; i++ {
		id := fmt.Sprintf("web-app-%d", i)
		members = append(members, map[string]any{
			"id": id, "group": "app", "state": "Member", "startTime": "2026-01-01T00:00:00Z", "node": fmt.Sprintf("n%d", i), "zone": fmt.Sprintf("z%d", i),
			"shape": map[string]any{"membersPerPod": 1},
		})
		s.pods = append(s.pods, map[string]any{
			"metadata": map[string]any{
				"namespace": "shop", "name": id, "uid": id, "labels": map[string]any{"usher.sh/member-set": "web", "usher.sh/member-id": id},
				"annotations":     map[string]any{"usher.sh/template-hash": "other", "usher.sh/template-labels-hash": "other"},
				"ownerReferences": []any{map[string]any{"apiVersion": "usher.sh/v1alpha1", "kind": "MemberSet", "name": "web", "uid": "set", "controller": true}},
			},
			"spec": map[string]any{
				"nodeName":   fmt.Sprintf("n%d", i),
				"containers": []any{map[string]any{"name": "app", "image": "app:1", "resources": map[string]any{"requests": map[string]any{"cpu": "500m"}}}},
			},
			"status": map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True"}}},
		})
	}
	s.there["status"].(map[string]any)["members"] = members
	return s
}

func planSet(t *testing.T, s *setServer, text string, args ...string) result {
	t.Helper()
	server := httptest.NewServer(s)
	defer server.Close()
	got := usher(t, text, append([]string{"plan", "-f", "-", "--server=" + server.URL}, args...)...)
	for _, w := range s.wrote {
		if !strings.HasSuffix(w, " All") {
			t.Errorf("it writes: %s", w)
		}
	}
	return got
}

const pageOfReplacement = `MemberSet shop/web would be changed: 2 members made, 2 members replaced; it would exceed a ResourceQuota

Groups
  group            today after  role
  app                  2     2  workload

Replaced
  web-app-1, web-app-2: its pod is of another template

Made
  web-app-3, web-app-4

At once
                     today at most   after
  pods                   2       4       2
  requests.cpu           1       2       1

ResourceQuotas
  compute: requests.cpu 1 of 1500m used, 2 at most: exceeded

To know
  members that are replaced stay until those that take their place do their work and their removal may begin: there are 4 pods at once at most, for which the quota and the nodes must have room

Assumed
  that pods start and become Ready, and that the rules of their roles let members go

In the way
stuck  shop/web
       QuotaExceeded: ResourceQuota compute allows 1500m of requests.cpu, and 2 would be used at once at most
       remedy: raise the quota for the time of the change, or change less at a time
`

func TestPlanOfASet(t *testing.T) {
	s := running()
	s.quotas = []any{map[string]any{"metadata": map[string]any{"name": "compute"}, "status": map[string]any{
		"hard": map[string]any{"requests.cpu": "1500m"}, "used": map[string]any{"requests.cpu": "1"},
	}}}
	got := planSet(t, s, setFile("2", "updateStrategy: {type: Replace}"))
	if got.code != exitBlocked || got.out != pageOfReplacement || got.err != "" {
		t.Errorf("exit %d\n%s%s", got.code, got.out, got.err)
	}
	for format, want := range map[string]string{"json": `"outcome": "blocked"`, "yaml": "outcome: blocked\n"} {
		if got := planSet(t, s, setFile("2", "updateStrategy: {type: Replace}"), "-o", format); got.code != exitBlocked || !strings.Contains(got.out, want) {
			t.Errorf("exit %d, %s\n%s%s", got.code, format, got.out, got.err)
		}
	}
}

func TestPlanOfASetInBatches(t *testing.T) {
	got := planSet(t, running(), setFile("2", ""), "-n", "shop")
	want := "Made anew under their names, batch after batch\n    1  web-app-1 (zone z1)\n    2  web-app-2 (zone z2)\n"
	if got.code != exitDone || !strings.Contains(got.out, want) {
		t.Errorf("exit %d\n%s%s", got.code, got.out, got.err)
	}
}

// What keeps a plan from being made, or from being whole, is said.
func TestPlanOfASetSays(t *testing.T) {
	const sets = "/apis/usher.sh/v1alpha1/namespaces/shop/membersets"
	cannot := `Forbidden: membersets.usher.sh is forbidden: User "eva" cannot %s resource "membersets" in API group "usher.sh" in the namespace "shop"`
	for name, test := range map[string]struct {
		answers map[string]string
		there   bool
		file    string
		args    []string
		code    int
		want    string
	}{
		"a set that is not there": {code: exitDone, want: "MemberSet shop/web would be made: 2 members made\n"},
		"no such kind":            {answers: map[string]string{"GET " + sets + "/web": ""}, code: exitDone, want: "the cluster has no MemberSets yet"},
		"no right to write": {
			answers: map[string]string{"POST " + sets: fmt.Sprintf(cannot, "create")}, code: exitDone, want: "a dry run of it was refused: membersets.usher.sh is forbidden",
		},
		"no right to change it": {
			answers: map[string]string{"PATCH " + sets + "/web": fmt.Sprintf(cannot, "patch")}, there: true, code: exitDone, want: "a dry run of it was refused: membersets.usher.sh is forbidden",
		},
		"no right to read it": {answers: map[string]string{"GET " + sets + "/web": fmt.Sprintf(cannot, "get")}, code: exitUsage, want: "--clusterrole=view --user=eva"},
		"no right to read quotas": {
			answers: map[string]string{"GET /api/v1/namespaces/shop/resourcequotas": `Forbidden: User "eva" cannot list resource "resourcequotas"`}, code: exitDone,
			want: "that the namespace's ResourceQuotas have room: reading the ResourceQuotas of namespace shop",
		},
		"no right to read pods": {
			answers: map[string]string{"GET /api/v1/namespaces/shop/pods": `Forbidden: User "eva" cannot list resource "pods"`}, code: exitUsage, want: "reading the pods of namespace shop",
		},
		"no such namespace": {answers: map[string]string{"POST " + sets: `NotFound: namespaces "shop" not found`}, code: exitUsage, want: "there is no namespace shop: kubectl create namespace shop makes it"},
		"what the schema refuses": {
			answers: map[string]string{"POST " + sets: "Invalid: spec.groups[0].role: too long"}, code: exitUsage, want: "applying it would be refused: spec.groups[0].role: too long",
		},
		"another namespace":     {args: []string{"-n", "other"}, code: exitUsage, want: "of namespace shop, and -n names other"},
		"nodes beside it":       {args: []string{"n1"}, code: exitUsage, want: "has a MemberSet, for which no nodes are drained: give none"},
		"two sets":              {file: setFile("1", "") + "---\n" + setFile("2", ""), code: exitUsage, want: "standard input has several MemberSets (web, web): plan one at a time"},
		"a Service beside it":   {file: "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n---\n" + setFile("1", ""), code: exitDone, want: "what else the file has is not looked at: Service web"},
		"a maintenance as well": {file: setFile("1", "") + "---\napiVersion: usher.sh/v1alpha1\nkind: NodeMaintenance\n", code: exitUsage, want: "has a MemberSet and a NodeMaintenance: plan one at a time"},
		"another kind":          {file: "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n", code: exitUsage, want: "standard input has a Deployment: a plan is for a MemberSet or a NodeMaintenance"},
		"a field that is misspelt": {
			file: strings.Replace(setFile("1", ""), "replicas", "replcas", 1), code: exitUsage, want: `unknown field "spec.groups[0].replcas"`,
		},
		"no replicas":              {file: strings.Replace(setFile("1", ""), "replicas: 2", "addressFrom: Pod", 1), code: exitUsage, want: "spec.groups[0] of MemberSet web: set either replicas or perNode"},
		"a role that is not known": {file: strings.Replace(setFile("1", ""), "workload", "wrokload", 1), code: exitBlocked, want: "PolicyInvalid: spec.groups[0].role: "},
		"another version":          {file: strings.Replace(setFile("1", ""), "usher.sh/v1alpha1", "usher.sh/v9", 1), code: exitUsage, want: "apiVersion usher.sh/v9 of MemberSet is not known: it is usher.sh/v1alpha1"},
		"a system that none":       {file: strings.Replace(setFile("1", ""), "kubernetes: {}", "http: {}", 1), code: exitUsage, want: "names no system whose members can be run"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &setServer{}
			if test.there {
				s = running()
			}
			s.answers = test.answers
			if test.file == "" {
				test.file = setFile("1", "")
			}
			got := planSet(t, s, test.file, test.args...)
			if got.code != test.code || !strings.Contains(got.out+got.err, test.want) {
				t.Errorf("exit %d, want %d and %q\n%s%s", got.code, test.code, test.want, got.out, got.err)
			}
		})
	}
}

// A file is read as standard input is, and what is in a file that has none of what is planned for is a dump still.
func TestPlanFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "set.yaml")
	if err := os.WriteFile(name, []byte(setFile("1", "")), 0o600); err != nil {
		t.Fatal(err)
	}
	file, _, err := planFileIn(strings.NewReader(""), name)
	if err != nil || file.set == nil || file.set.GetName() != "web" {
		t.Errorf("it has %+v, %v", file, err)
	}
	got := usher(t, `{"kind":"List","apiVersion":"v1","items":[{"kind":"Node","apiVersion":"v1","metadata":{"name":"a","uid":"a"}}]}`, "plan", "a", "-f", "-")
	if !strings.Contains(got.err, "the dump has no pods") {
		t.Errorf("exit %d, stderr %q", got.code, got.err)
	}
}

// What cannot be read, or has nothing that a plan is for, is said to be so.
func TestPlanOfWhatIsNoPlanFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, c := range map[string]struct{ file, want string }{
		"no such file":               {filepath.Join(dir, "nope.yaml"), "no such file or directory"},
		"a directory":                {dir, "is a directory: give a file"},
		"empty":                      {write("empty", ""), "has no object: a plan is for a MemberSet"},
		"a device":                   {"/dev/null", "has no object: a plan is for a MemberSet"},
		"broken":                     {write("broken", "kind: [MemberSet"), "has no object that can be read: "},
		"a list of JSON":             {write("list", "[]"), "has no object that can be read: "},
		"a set and a flag of drains": {write("set", setFile("1", "")), "--force is for drains"},
		"a dump":                     {write("dump", `{"kind":"List","apiVersion":"v1","items":[]}`), "no node was named"},
	} {
		t.Run(name, func(t *testing.T) {
			args := []string{"plan", "-f", c.file}
			if strings.Contains(c.want, "--force") {
				args = append(args, "--force")
			}
			if got := usher(t, "", args...); got.code != 1 || !strings.Contains(got.err, c.want) {
				t.Errorf("exit %d, stderr %q, want %q", got.code, got.err, c.want)
			}
		})
	}
}

// A pipe is read as standard input is, also where it has a dump.
func TestPlanOfAPipe(t *testing.T) {
	for name, c := range map[string]struct {
		content, want string
		args          []string
	}{
		"with a set":  {setFile("1", ""), "", nil},
		"with a dump": {`{"kind":"List","apiVersion":"v1","items":[{"kind":"Node","apiVersion":"v1","metadata":{"name":"a","uid":"a"}}]}`, "the dump has no pods", []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			pipe := filepath.Join(t.TempDir(), "pipe")
			if err := syscall.Mkfifo(pipe, 0o600); err != nil {
				t.Fatal(err)
			}
			go func() { _ = os.WriteFile(pipe, []byte(c.content), 0o600) }()
			if c.want != "" {
				if got := usher(t, "", append([]string{"plan", "-f", pipe}, c.args...)...); !strings.Contains(got.err, c.want) {
					t.Errorf("exit %d, stderr %q", got.code, got.err)
				}
				return
			}
			if file, _, err := planFileIn(strings.NewReader(""), pipe); err != nil || file.set == nil || !file.stream {
				t.Errorf("it has %+v, %v", file, err)
			}
		})
	}
}

// What was applied last and is not in the file any more goes, and what others have set stays.
func TestWhatApplyingMakesOfASet(t *testing.T) {
	file := object(t, `{"metadata":{"name":"web"},"spec":{"idPrefix":"a"}}`)
	there := object(t, `{"metadata":{"name":"web","annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"spec\":{\"onEviction\":\"Replace\"}}"}},
		"spec":{"onEviction":"Replace","suspend":true}}`)
	_, set, err := merged(file, there)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(set.Object["spec"]); got != "map[idPrefix:a suspend:true]" {
		t.Errorf("it makes %s", got)
	}
}

func object(t *testing.T, fields string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON([]byte(`{"apiVersion":"usher.sh/v1alpha1","kind":"MemberSet",` + fields[1:])); err != nil {
		t.Fatal(err)
	}
	return o
}

const databaseFile = `apiVersion: usher.sh/v1alpha1
kind: MemberSet
metadata: {namespace: shop, name: web}
spec:
  system: {foundationdb: {version: 7.3.63, redundancy: double, clusterFile: {configMap: {name: fdb, key: file}}}}
  faultDomainKey: kubernetes.io/hostname
  groups:
  - {name: storage, role: foundationdb-storage, replicas: 3, template: {spec: {containers: [{name: fdb, image: "fdb:1"}]}}}
  - {name: log, role: foundationdb-log, replicas: 2, template: {spec: {containers: [{name: fdb, image: "fdb:1"}]}}}
`

const pageOfDatabase = `MemberSet shop/web would be made: 5 members made

Groups
  group            today after  role
  storage              0     3  foundationdb-storage
  log                  0     2  foundationdb-log

Made
  web-log-1, web-log-2, web-storage-1, web-storage-2 and 1 more

At once
                     today at most   after
  pods                   0       5       5

Assumed
  that pods start and become Ready, and that the rules of their roles let members go
  that foundationdb moves what members have to others when it is asked to, and keeps nothing on any member but for that: it is not asked
  that the first members run on nodes of their own
`

// A plan for a set of FoundationDB knows by which file it is found, and reads the ConfigMap: one that is there already is none of the set's.
func TestPlanOfADatabase(t *testing.T) {
	const file = "GET /api/v1/namespaces/shop/configmaps/fdb"
	for name, test := range map[string]struct {
		answers map[string]string
		from    string
		file    bool
		code    int
		want    string
	}{
		"it is reached at Services": {from: "addressFrom: Service, ", code: exitDone, want: pageOfDatabase},
		"it is made":                {code: exitDone, want: pageOfDatabase},
		"no right to read it":       {answers: map[string]string{file: `Forbidden: configmaps "fdb" is forbidden: User "eva" cannot get resource "configmaps"`}, code: exitUsage, want: "reading ConfigMap fdb of namespace shop"},
		"there is one of others":    {file: true, code: exitBlocked, want: "NameTaken: ConfigMap fdb is there, and was not made for this MemberSet"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &setServer{answers: test.answers, file: test.file}
			got := planSet(t, s, strings.ReplaceAll(databaseFile, "replicas", test.from+"replicas"))
			if got.code != test.code || !strings.Contains(got.out+got.err, test.want) {
				t.Errorf("exit %d\n%s%s", got.code, got.out, got.err)
			}
		})
	}
}

// Of two files none is left out without a word.
func TestPlanTakesOneFile(t *testing.T) {
	got := usher(t, "", "plan", "-f", "a.yaml", "-f", "b.yaml")
	if want := "one file is planned for at a time, and a.yaml was given before"; got.code != exitUsage || !strings.Contains(got.err, want) {
		t.Errorf("exit %d, %s", got.code, got.err)
	}
}

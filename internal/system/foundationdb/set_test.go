package foundationdb

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/memberset"
)

var (
	storageGroup = &v1alpha1.MemberGroup{Name: "disks", Role: "foundationdb-storage"}
	logGroup     = &v1alpha1.MemberGroup{Name: "log", Role: "own"}
)

func TestClassOf(t *testing.T) {
	for _, test := range []struct{ name, role, want string }{
		{"disks", "foundationdb-storage", "storage"},
		{"log", "own", "log"},
		{"coordinator", "foundationdb-stateless", "coordinator"},
		{"proxies", "foundationdb-stateless", "stateless"},
		{"disks", "own", ""},
	} {
		if got := classOf(&v1alpha1.MemberGroup{Name: test.name, Role: test.role}); got != test.want {
			t.Errorf("group %s of role %s is of class %q, want %q", test.name, test.role, got, test.want)
		}
	}
}

func TestAccepts(t *testing.T) {
	for name, test := range map[string]struct {
		version string
		group   *v1alpha1.MemberGroup
		want    string
	}{
		"all is well":        {"7.3.63", storageGroup, ""},
		"no class":           {"7.3.63", &v1alpha1.MemberGroup{Name: "disks", Role: "own"}, "name it as one of coordinator, storage"},
		"a version too old":  {"7.1.41", storageGroup, "7.1.41 does not exclude processes by their instance_id"},
		"a faulty later one": {"7.3.25", storageGroup, "7.3.25 does not exclude processes by their instance_id"},
	} {
		t.Run(name, func(t *testing.T) {
			err := accepts(&v1alpha1.System{FoundationDB: &v1alpha1.FoundationDB{Version: test.version}}, test.group)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestBegin(t *testing.T) {
	one := func(id, ip, zone string, g *v1alpha1.MemberGroup) memberset.Candidate {
		return memberset.Candidate{ID: id, IP: ip, Zone: zone, Group: g}
	}
	stateless, coordinator := &v1alpha1.MemberGroup{Name: "stateless"}, &v1alpha1.MemberGroup{Name: "coordinator"}
	for name, test := range map[string]struct {
		redundancy v1alpha1.Redundancy
		first      []memberset.Candidate
		want       string
	}{
		"one is enough": {
			v1alpha1.RedundancySingle,
			[]memberset.Candidate{one("a", "10.0.0.1", "n1", storageGroup), one("b", "10.0.0.2", "n2", storageGroup)},
			"my_db_1234:ID@10.0.0.1:4500\n",
		},
		"the best class first, and each on another node": {
			v1alpha1.RedundancyDouble, []memberset.Candidate{
				one("a", "10.0.0.1", "n1", stateless), one("b", "10.0.0.2", "n2", logGroup), one("c", "10.0.0.3", "n3", storageGroup),
				one("d", "10.0.0.4", "n3", storageGroup), one("e", "10.0.0.5", "n5", coordinator), one("f", "10.0.0.6", "n6", storageGroup),
			}, "my_db_1234:ID@10.0.0.5:4500,10.0.0.3:4500,10.0.0.6:4500\n",
		},
		"too few nodes": {
			v1alpha1.RedundancyDouble, []memberset.Candidate{
				one("a", "10.0.0.1", "n1", storageGroup), one("b", "10.0.0.2", "n2", storageGroup), one("c", "10.0.0.3", "n2", storageGroup), one("d", "10.0.0.4", "n4", stateless),
			}, "3 coordinators on as many nodes are needed for redundancy double, of the classes coordinator, storage, log, transaction, unset, and there are 2",
		},
		"IPv6": {v1alpha1.RedundancySingle, []memberset.Candidate{one("a", "fd00::1", "n1", storageGroup)}, "the IP of a is fd00::1, and Usher runs FoundationDB on IPv4"},
	} {
		t.Run(name, func(t *testing.T) {
			set := &v1alpha1.MemberSet{ObjectMeta: metav1.ObjectMeta{Name: "my-db", UID: "12-34"}}
			set.Spec.System.FoundationDB = &v1alpha1.FoundationDB{Redundancy: test.redundancy}
			file, missing := begin(set, test.first)
			if diff := cmp.Diff(test.want, hexID.ReplaceAllString(file, ":ID@")+missing); diff != "" {
				t.Error(diff)
			}
			if file != "" && description(file) != "my_db_1234" {
				t.Errorf("the description is %q", description(file))
			}
		})
	}
}

// hexID is the id in a cluster file.
var hexID = regexp.MustCompile(`:[0-9a-f]{16}@`)

// A file that is chosen anew has another id: what has met by the former one is none of it. The same coordinators have the same.
func TestBeginAnew(t *testing.T) {
	set := &v1alpha1.MemberSet{ObjectMeta: metav1.ObjectMeta{Name: "db", UID: "12-34"}}
	set.Spec.System.FoundationDB = &v1alpha1.FoundationDB{Redundancy: v1alpha1.RedundancySingle}
	var files []string
	for _, ip := range []string{"10.0.0.1", "10.0.0.2", "10.0.0.1"} {
		file, _ := begin(set, []memberset.Candidate{{ID: "a", IP: ip, Zone: "n1", Group: storageGroup}})
		if ips := coordinatorIPs(file); !cmp.Equal(ips, []string{ip}) || description(file) != "db_1234" {
			t.Errorf("%q leads to %v of %q", file, ips, description(file))
		}
		files = append(files, file)
	}
	if first, second := hexID.FindString(files[0]), hexID.FindString(files[1]); first == "" || first == second || files[0] != files[2] {
		t.Errorf("%q", files)
	}
	if ips := coordinatorIPs("none"); len(ips) > 0 {
		t.Errorf("what is no cluster file leads to %v", ips)
	}
}

func TestEnvironment(t *testing.T) {
	for name, test := range map[string]struct {
		empty    bool
		sections string
	}{
		"two processes":          {false, "[fdbserver.4500]\n[fdbserver.4501]\n"},
		"an empty configuration": {true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			env := environment(nil, nil, &memberset.Start{ID: "db-disks-1", Group: storageGroup, Processes: 2, Empty: test.empty})
			if names := []string{env[0].Name, env[1].Name, env[2].Name}; !cmp.Equal(names, []string{"USHER_POD_IP", "USHER_NODE_NAME", "FDB_MONITOR_CONF"}) {
				t.Errorf("the variables, in the order in which they refer to each other, are %v", names)
			}
			want := `[general]
restart-delay = 5
` + test.sections + `[fdbserver]
command = /usr/bin/fdbserver
cluster-file = /var/fdb/cluster/fdb.cluster
public-address = $(USHER_POD_IP):$ID
listen-address = public
datadir = /var/fdb/data/$ID
logdir = /var/fdb/log
class = storage
locality-instance_id = db-disks-1
locality-zoneid = $(USHER_NODE_NAME)
locality-machineid = $(USHER_NODE_NAME)
`
			if diff := cmp.Diff(want, env[2].Value); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A member with a Service is reached there, and listens at its pod.
func TestEnvironmentOfAService(t *testing.T) {
	env := environment(nil, nil, &memberset.Start{ID: "db-log-1", Group: logGroup, Processes: 1, Address: "10.96.0.7"})
	for _, line := range []string{"public-address = 10.96.0.7:$ID\n", "listen-address = $(USHER_POD_IP):$ID\n"} {
		if !strings.Contains(env[2].Value, line) {
			t.Errorf("%q is missing in %s", line, env[2].Value)
		}
	}
	var numbers []int32
	for _, port := range setKind().Ports(3) {
		numbers = append(numbers, port.Port)
	}
	if !cmp.Equal(numbers, []int32{4500, 4501, 4502}) {
		t.Errorf("the ports of its Service are %v", numbers)
	}
}

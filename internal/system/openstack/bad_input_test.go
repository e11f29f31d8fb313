package openstack_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/openstack"
	"usher.sh/usher/test/httpfault"
	"usher.sh/usher/test/openstacksim"
)

func pageOf(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/openstack.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// What is wrong is a sentence that says what to do, and no password is in it.
func TestBadInput(t *testing.T) {
	const file = openstacksim.CloudsYAML
	tests := map[string]struct {
		file   string
		own    v1alpha1.OpenStack
		change func(*openstacksim.Cloud)
		want   string
	}{
		"wrong credentials": {
			file: strings.ReplaceAll(file, "right", "wr0ng-s3cret"),
			want: "identity API at http://keystone.sim:5000 refuses the credentials (401): correct user, password, domain and project in the Secret's clouds.yaml",
		},
		"region missing": {
			own: v1alpha1.OpenStack{Region: "North"}, change: func(c *openstacksim.Cloud) { c.Regions = []string{"RegionOne", "South"} },
			want: "identity API at http://keystone.sim:5000: its catalog has no region North, but RegionOne, South: correct spec.system.openstack.region, or region_name in clouds.yaml",
		},
		"several regions, and none named": {
			file: strings.ReplaceAll(file, "    region_name: RegionOne\n", ""), change: func(c *openstacksim.Cloud) { c.Regions = []string{"RegionOne", "South"} },
			want: "identity API at http://keystone.sim:5000: its catalog has the regions RegionOne, South: say in spec.system.openstack.region which one is meant",
		},
		"no such interface": {
			file: strings.ReplaceAll(file, "    region_name", "    interface: admin\n    region_name"),
			want: "identity API at http://keystone.sim:5000: service compute has no admin endpoint in region RegionOne, but internal, public: correct interface in clouds.yaml",
		},
		"no compute service": {
			change: func(c *openstacksim.Cloud) { c.Regions = nil },
			want:   "identity API at http://keystone.sim:5000: its catalog has no service of type compute: the account's project may not see it",
		},
		"microversion too old": {
			change: func(c *openstacksim.Cloud) { c.Most = "2.79" },
			want:   "compute API at http://nova.sim:8774: it speaks the microversions 2.1 to 2.79, and Usher 2.80 to 2.87: OpenStack Ussuri is the first release that has one of them",
		},
		"microversion too new": {
			change: func(c *openstacksim.Cloud) { c.Least = "2.88" },
			want:   "compute API at http://nova.sim:8774: it speaks the microversions 2.88 to 2.93, and Usher 2.80 to 2.87: OpenStack Ussuri is the first release that has one of them",
		},
		"no microversions": {
			change: func(c *openstacksim.Cloud) { c.Most = "" },
			want:   "compute API at http://nova.sim:8774: its endpoint in the catalog has no microversions: name one that ends in /v2.1 there",
		},
		"no administrator": {
			change: func(c *openstacksim.Cloud) { c.NoAdmin = true },
			want: "compute API at http://nova.sim:8774, listing hypervisors: Policy doesn't allow os_compute_api:os-hypervisors:list-detail to be performed (403): " +
				"the account needs the role admin in its project",
		},
		"Keystone does not answer": {
			change: func(c *openstacksim.Cloud) { c.Inject(httpfault.Fault{Path: "/v3", Refuse: true}) },
			want:   "identity API at http://keystone.sim:5000: it cannot be reached: dial tcp: connection refused",
		},
		"something else answers": {
			change: func(c *openstacksim.Cloud) {
				c.Inject(httpfault.Fault{Path: "/os-hyp", Status: 200, Body: "<html>"})
			},
			want: "compute API at http://nova.sim:8774, listing hypervisors: its answer is not what OpenStack says there",
		},
		"something else says something else": {
			change: func(c *openstacksim.Cloud) {
				c.Inject(httpfault.Fault{Path: "/os-hyp", Status: 500, Body: "secret words"})
			},
			want: "compute API at http://nova.sim:8774, listing hypervisors: it answered 500",
		},
		"an answer breaks off": {
			change: func(c *openstacksim.Cloud) { c.Inject(httpfault.Fault{Path: "/os-hyp", Cut: 20}) },
			want:   "compute API at http://nova.sim:8774, listing hypervisors: its answer breaks off",
		},
		"an answer without an end": {
			change: func(c *openstacksim.Cloud) {
				c.Inject(httpfault.Fault{Path: "/os-hyp", Status: 200, Body: `{"hypervisors": ["` + strings.Repeat("x", 9<<20)})
			},
			want: "compute API at http://nova.sim:8774, listing hypervisors: its answer is longer than 8 MiB",
		},
		"a redirect is not followed with the token": {
			change: func(c *openstacksim.Cloud) { c.Inject(httpfault.Fault{Path: "/os-hyp", Status: 302}) },
			want:   "compute API at http://nova.sim:8774, listing hypervisors: it answered 302",
		},
	}
	page := pageOf(t)
	for _, name := range []string{"wrong credentials", "region missing", "several regions, and none named", "microversion too old", "no administrator", "Keystone does not answer"} {
		if !strings.Contains(page, "`"+tests[name].want+"`") {
			t.Errorf("docs/openstack.md has another sentence: %s", name)
		}
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			cloud := openstacksim.New(2)
			if test.change != nil {
				test.change(cloud)
			}
			if test.file == "" {
				test.file = file
			}
			test.own.Clouds = cloudsKey
			opened, err := open(simulated{cloud}, test.own, []byte(test.file))
			if err != nil {
				t.Fatal(err)
			}
			evidence, err := opened.Observe(t.Context(), nil)
			if err == nil || err.Error() != test.want {
				t.Errorf("got  %v, %v\nwant %s", evidence, err, test.want)
			}
			cloud.Heal()
			if _, err := opened.Observe(t.Context(), nil); test.change != nil && len(cloud.Regions) == 1 && cloud.Most == "2.93" && cloud.Least == "2.1" && !cloud.NoAdmin && err != nil {
				t.Errorf("when it has passed: %v", err)
			}
		})
	}
}

// A host that OpenStack does not know is a blocker of that member, and of no other.
func TestUnknownHost(t *testing.T) {
	b := simulatedBench(t, openstacksim.New(2))
	v := b.judge("compute-9")
	if got := strings.Join(said(v), "\n"); !strings.HasPrefix(got, "HostUnknown: OpenStack has no compute host compute-9 in this region / where it says no other thing to do: set id in the policy's members") || needs(v) {
		t.Error(got)
	}
	if err := b.prepare("compute-9"); err == nil || errors.Is(err, system.ErrTerminal) || !strings.Contains(err.Error(), "has no compute host compute-9") {
		t.Error(err)
	}
	if v := b.judge("compute-1"); len(v.Blockers) != 1 {
		t.Error(said(v))
	}
}

// A token that expires in the middle is renewed, and what was asked with it is asked for once.
func TestTokenExpires(t *testing.T) {
	cloud := openstacksim.New(2)
	cloud.Boot("web", "compute-1", "active")
	b := simulatedBench(t, cloud)
	b.turn("compute-1")
	cloud.ExpireTokens()
	if err := b.prepare("compute-1"); err != nil || len(cloud.Migrations()) != 1 {
		t.Errorf("%v, %+v", err, cloud.Migrations())
	}
	cloud.ExpireTokens()
	cloud.Inject(httpfault.Fault{Path: "/v3/auth", Status: 401, Body: `{"error": {"code": 401, "message": "no"}}`})
	want := "compute API at http://nova.sim:8774, listing hypervisors: the token has expired, and there is no new one: identity API at http://keystone.sim:5000 refuses the credentials (401): " +
		"correct user, password, domain and project in the Secret's clouds.yaml"
	if _, err := b.observe("compute-1"); err == nil || err.Error() != want || !strings.Contains(pageOf(t), "`"+want+"`") {
		t.Errorf("got  %v\nwant %s, as docs/openstack.md has it", err, want)
	}
	cloud.Heal()
	cloud.Advance(10 * time.Second)
	if v := b.judge("compute-1"); v.Answer != eviction.Allowed {
		t.Error(said(v))
	}
}

// A host is not taken for empty by an answer that is about something else: Nova leaves out what an account may not ask for.
func TestFiltersThatAreLeftOut(t *testing.T) {
	cloud := openstacksim.New(2)
	cloud.NoFilters = true
	cloud.Boot("web", "compute-2", "active")
	cloud.ChangeHost("compute-1", func(h *openstacksim.Host) { h.Enabled = false })
	b := simulatedBench(t, cloud)
	if _, err := b.observe("compute-1"); err == nil || !strings.Contains(err.Error(), "not known to be on host compute-1: the account needs the role admin") {
		t.Error(err)
	}
}

// A call ends in its time.
func TestSilence(t *testing.T) {
	cloud := openstacksim.New(2)
	b := simulatedBench(t, cloud)
	if _, err := b.observe(); err != nil { // logged in, the call is the only one
		t.Fatal(err)
	}
	cloud.Inject(httpfault.Fault{Path: "/os-hyp", Silent: true})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := b.system.Observe(ctx, nil); err == nil || !strings.Contains(err.Error(), "listing hypervisors: it did not answer within") {
		t.Error(err)
	}
}

// What cannot be a clouds.yaml is refused before anything is asked.
func TestCloudsFiles(t *testing.T) {
	auth := func(more string) string {
		return "clouds: {a: {auth: {auth_url: 'http://k:5000/v3', username: u, password: s3cret, user_domain_name: Default, project_name: p}" + more + "}}"
	}
	for name, c := range map[string]struct{ file, cloud, want string }{
		"no YAML":      {"\t{", "", "it is no clouds.yaml: it cannot be read as YAML of that shape"},
		"no clouds":    {"{}", "", "it is no clouds.yaml: it has no clouds"},
		"several":      {"clouds: {a: {}, b: {}}", "", "it has the clouds a, b: say in spec.system.openstack.cloud which one is meant"},
		"not this":     {"clouds: {a: {}, b: {}}", "c", "it has no cloud c, but a, b: correct spec.system.openstack.cloud"},
		"no URL":       {"clouds: {a: {auth: {auth_url: keystone}}}", "", "cloud a: auth.auth_url must be a URL like https://HOST:5000/v3"},
		"a user in it": {"clouds: {a: {auth: {auth_url: 'http://u:p@k'}}}", "", "cloud a: auth.auth_url has a user in it: auth.username and auth.password say who logs in"},
		"a profile":    {"clouds: {a: {profile: vexxhost, auth: {}}}", "", "cloud a: auth.auth_url is missing: Usher knows no profiles"},
		"no password":  {"clouds: {a: {auth: {auth_url: 'http://k', username: u}}}", "", "cloud a: auth has neither a username and a password nor an application credential"},
		"half a credential": {
			"clouds: {a: {auth: {auth_url: 'http://k', application_credential_secret: s}}}", "",
			"cloud a: auth.application_credential_secret needs application_credential_id, or application_credential_name and the user",
		},
		"no project": {
			"clouds: {a: {auth: {auth_url: 'http://k', username: u, password: p, user_domain_id: d}}}", "",
			"cloud a: auth names no project (project_name or project_id): without one nothing may be done",
		},
		"no domain": {
			"clouds: {a: {auth: {auth_url: 'http://k', username: u, password: p, project_id: q}}}", "",
			"cloud a: auth names no domain of the user (user_domain_name or user_domain_id)",
		},
		"files": {
			auth(", cacert: /etc/ssl/ca.pem"), "",
			"cloud a: it names files (cacert, cert, key), which are not there where Usher runs: take them out, and name the certificate authority in spec.system.openstack.ca",
		},
		"not verified": {
			auth(", verify: false"), "",
			"cloud a: verify is false, and Usher sends no password to what it cannot verify: name the certificate authority in spec.system.openstack.ca",
		},
		"another way": {auth(", auth_type: v3oidcpassword"), "", "cloud a: auth_type is v3oidcpassword, and Usher knows password and v3applicationcredential"},
	} {
		_, err := open(simulated{openstacksim.New(1)}, v1alpha1.OpenStack{Clouds: cloudsKey, Cloud: c.cloud}, []byte(c.file))
		want := `entry "clouds.yaml" of the Secret "keystone": ` + c.want
		if err == nil || err.Error() != want {
			t.Errorf("%s:\ngot  %v\nwant %s", name, err, want)
		}
	}
	for name, file := range map[string]string{
		"a password": auth(""), "a credential": "clouds: {a: {auth_type: v3applicationcredential, auth: {auth_url: 'http://k', application_credential_id: i, application_credential_secret: s}}}",
		"a name":     auth(", interface: internalURL, region_name: R, auth_type: password"),
		"the system": "clouds: {a: {auth: {auth_url: 'http://k', user_id: u, password: p, system_scope: all}}}",
	} {
		if _, err := open(simulated{openstacksim.New(1)}, v1alpha1.OpenStack{Clouds: cloudsKey}, []byte(file)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCertificateAuthority(t *testing.T) {
	key := v1alpha1.SecretKey{Name: "ca", Key: "ca.crt"}
	own := &v1alpha1.System{OpenStack: &v1alpha1.OpenStack{Clouds: cloudsKey, CA: &key}}
	access := system.Access{Secrets: map[v1alpha1.SecretKey][]byte{cloudsKey: []byte(openstacksim.CloudsYAML), key: []byte("no PEM")}}
	if _, err := openstack.Open(own, access); err == nil || err.Error() != `entry "ca.crt" of the Secret "ca": it holds no certificate in PEM` {
		t.Error(err)
	}
	if refers := kind().ReferencesOf(own); len(refers.Secrets) != 2 || refers.Secrets[0] != cloudsKey || refers.Secrets[1] != key {
		t.Errorf("%+v", refers)
	}
	if _, err := openstack.Open(&v1alpha1.System{}, access); err == nil {
		t.Error("a policy of another kind is opened")
	}
}

// A host of which Nova or Neutron cannot list what it has keeps no other from being looked at, and says so itself.
func TestAFaultOfOneHost(t *testing.T) {
	for path, c := range map[string]struct{ role, want string }{
		"/servers/detail": {"nova-compute", "HostUnknown: compute API at http://nova.sim:8774, listing servers: it answered 500"},
		"/l3-routers":     {"neutron-l3-agent", "HostUnknown: network API at http://neutron.sim:9696, listing the routers of an agent: it answered 500"},
		"/dhcp-networks":  {"neutron-l2-agent", "HostUnknown: it is not known what uses the network of compute-1: network API at http://neutron.sim:9696, listing the networks of an agent: it answered 500"},
	} {
		cloud := networkCloud()
		cloud.ChangeHost("compute-1", func(h *openstacksim.Host) { h.Enabled = false })
		cloud.Inject(httpfault.Fault{Path: path, Times: 1, Status: http.StatusInternalServerError, Body: "{}"})
		b := roleBench(t, cloud, c.role)
		evidence, err := b.observe("compute-1")
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		v := eviction.Judge(eviction.Input{
			Now: b.site.now(), Pod: b.pod("compute-1"), Evidence: evidence,
			Policies: []eviction.Declared{{Key: snapshot.Key{Namespace: "cloud", Name: "nova"}, Policy: b.policy, Status: &v1alpha1.EvictionPolicyStatus{}}},
		})
		if !slices.ContainsFunc(said(v), func(words string) bool { return strings.HasPrefix(words, c.want) }) {
			t.Errorf("%s: %s", path, said(v))
		}
	}
}

package foundationdb

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/system"
)

func TestClusterFiles(t *testing.T) {
	for name, test := range map[string]struct {
		content string
		want    string // "": it is refused
		refusal string
	}{
		"as written by hand":    {content: "db:abc@10.1.2.3:4500,[2001:db8::1]:4500", want: "db:abc@10.1.2.3:4500,[2001:db8::1]:4500\n"},
		"as rewritten":          {content: "# DO NOT EDIT!\n# generated\ndb:abc@10.1.2.3:4500\n", want: "db:abc@10.1.2.3:4500\n"},
		"nothing":               {refusal: "it has 0 lines"},
		"two clusters":          {content: "a:b@10.1.2.3:1\nc:d@10.1.2.3:1\n", refusal: "it has 2 lines"},
		"something else":        {content: "password=secret", refusal: "it does not begin with DESCRIPTION:ID@"},
		"a command in the name": {content: "a;kill:b@10.1.2.3:1", refusal: "it does not begin with"},
		"host names":            {content: "a:b@db-0.db:4500", refusal: "Usher takes no host names and no IPv6 zones there"},
		"a command in a zone":   {content: "a:b@[fe80::1%x; kill; kill all]:4500", refusal: "not IP:PORT"},
		"a zone":                {content: "a:b@[fe80::1%eth0]:4500", refusal: "not IP:PORT"},
		"TLS":                   {content: "a:b@10.1.2.3:4500:tls", refusal: "does not speak TLS"},
		"no coordinators":       {content: "a:b@", refusal: "not IP:PORT"},
		"too many":              {content: "a:b@" + strings.Repeat("10.1.2.3:1,", 64) + "10.1.2.3:1", refusal: "65 coordinators"},
		"too large":             {content: strings.Repeat("#\n", 40<<10), refusal: "larger than 64 KiB"},
	} {
		f, err := parseClusterFile(test.content)
		switch {
		case test.want == "" && (err == nil || !strings.Contains(err.Error(), test.refusal) || strings.Contains(err.Error(), "secret")):
			t.Errorf("%s: refused with %v", name, err)
		case test.want != "" && (err != nil || f.String() != test.want):
			t.Errorf("%s: %v %v", name, f, err)
		}
	}
}

// Coordinators are refused where an HTTP endpoint would be, whether the policy names them or the cluster leads there.
func TestCoordinatorsThatAreNotAsked(t *testing.T) {
	key := v1alpha1.SecretKey{Name: "db", Key: "file"}
	spec := &v1alpha1.System{FoundationDB: &v1alpha1.FoundationDB{ClusterFile: v1alpha1.ClusterFile{Secret: &key}, Version: "7.3.63"}}
	open := func(content string) (*cluster, error) {
		c, err := Over(program{}, time.Now, spec, system.Access{Secrets: map[v1alpha1.SecretKey][]byte{key: []byte(content)}})
		if err != nil {
			return nil, err
		}
		return c.(*cluster), nil
	}
	for _, address := range []string{"169.254.169.254:80", "127.0.0.1:4500", "0.0.0.0:4500", "[fd00:ec2::254]:80", "[::ffff:169.254.169.254]:80", "100.100.100.200:80"} {
		if _, err := open("a:b@203.0.113.1:4500," + address); err == nil || !strings.Contains(err.Error(), "Usher does not connect to it") {
			t.Errorf("%s: %v", address, err)
		}
		c, err := open("a:b@203.0.113.1:4500")
		if err != nil {
			t.Fatal(err)
		}
		if err := c.follow(c.file, "a:c@"+address+"\n"); err == nil || c.moved {
			t.Errorf("the cluster has led to %s", address)
		}
	}
	c, err := open("a:b@203.0.113.1:4500")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.follow(c.file, "# comment\na:c@203.0.113.2:4500\n"); err != nil || c.file != "a:c@203.0.113.2:4500\n" || !c.stale() {
		t.Errorf("the coordinators that have moved are not followed: %v %q", err, c.file)
	}
}

func FuzzClusterFile(f *testing.F) {
	f.Add("# c\nlab:lab0@127.0.0.11:14501,127.0.0.12:14502\n")
	f.Add("a:b@[::1%eth0]:1")
	f.Fuzz(func(t *testing.T, content string) {
		file, err := parseClusterFile(content)
		if err != nil {
			return
		}
		again, err := parseClusterFile(file.String())
		if err != nil || again.String() != file.String() || strings.ContainsAny(strings.TrimSuffix(file.String(), "\n"), " ;'\"\\\n") {
			t.Errorf("%q was read as %q, and that as %v: %v", content, file, again, err)
		}
	})
}

func TestReferences(t *testing.T) {
	secret, file := v1alpha1.SecretKey{Name: "s", Key: "k"}, v1alpha1.ConfigMapKey{Name: "c", Key: "k"}
	for _, test := range []struct {
		file v1alpha1.ClusterFile
		want system.References
	}{
		{v1alpha1.ClusterFile{Secret: &secret}, system.References{Secrets: []v1alpha1.SecretKey{secret}}},
		{v1alpha1.ClusterFile{ConfigMap: &file}, system.References{ConfigMaps: []v1alpha1.ConfigMapKey{file}}},
	} {
		spec := &v1alpha1.System{FoundationDB: &v1alpha1.FoundationDB{ClusterFile: test.file}}
		if diff := cmp.Diff(test.want, Kind().ReferencesOf(spec)); diff != "" {
			t.Error(diff)
		}
	}
}

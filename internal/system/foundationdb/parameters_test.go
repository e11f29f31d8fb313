package foundationdb

import (
	"strings"
	"testing"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/memberset"
)

// Lines of the configuration are refused that Usher writes itself, by whichever of their names, and what would be no line.
func TestParameters(t *testing.T) {
	for name, test := range map[string]struct {
		lines []string
		says  string // "": they are taken
	}{
		"none":                         {nil, ""},
		"knobs and memory":             {[]string{"knob_disable_posix_kernel_aio = 1", "memory = 4GiB", "locality-data_hall = a"}, ""},
		"its class":                    {[]string{"memory = 4GiB", "class = log"}, "parameters[1]: class is set for each member by Usher"},
		"with underscores":             {[]string{"cluster_file = /tmp/other"}, "parameters[0]: cluster_file is set for each member by Usher"},
		"its id":                       {[]string{"locality-instance_id = other"}, "parameters[0]: locality-instance_id is set for each member by Usher"},
		"by a short name":              {[]string{"C = /tmp/other"}, "parameters[0]: \"C = /tmp/other\" is no line"},
		"two lines":                    {[]string{"memory = 4GiB\nclass = log"}, "parameters[0]: \"memory = 4GiB\\nclass = log\" is no line"},
		"a section":                    {[]string{"[fdbserver.4501]"}, "parameters[0]: \"[fdbserver.4501]\" is no line"},
		"a variable":                   {[]string{"memory = $(MEMORY)"}, "parameters[0]: memory: the kubelet would put a variable in"},
		"the same in another spelling": {[]string{"memory-vsize = 0", "memory_vsize = 1"}, "parameters[1]: memory_vsize is there twice"},
	} {
		t.Run(name, func(t *testing.T) {
			err := acceptsParameters(test.lines)
			if (err == nil) != (test.says == "") || err != nil && !strings.HasPrefix(err.Error(), test.says) {
				t.Errorf("%v, want %q", err, test.says)
			}
		})
	}
	start := &memberset.Start{ID: "fdb-storage-1", Group: &v1alpha1.MemberGroup{Name: "storage", Parameters: []string{"knob_a = 1", "memory = 4GiB"}}}
	env := environment(nil, nil, start)
	if conf := env[len(env)-1].Value; !strings.HasSuffix(conf, "\nlocality-machineid = $(USHER_NODE_NAME)\nknob_a = 1\nmemory = 4GiB\n") {
		t.Errorf("the configuration is %s", conf)
	}
}

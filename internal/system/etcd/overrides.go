package etcd

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// reservedFlags are what Usher tells each member by variables, before which flags go, and what would have it begin another cluster.
var reservedFlags = []string{
	"name", "initial-cluster", "initial-cluster-state", "initial-cluster-token", "initial-advertise-peer-urls", "listen-peer-urls", "advertise-client-urls",
	"listen-client-urls", "force-new-cluster", "config-file",
}

// overrides refuses a template of a MemberSet that has etcd ignore what Usher tells it. Flags in a script count as well; what a variable takes from elsewhere
// cannot be seen.
func overrides(pod *corev1.PodSpec) error {
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		if said := overridden(&c); said != "" {
			return fmt.Errorf("container %s: %s is not for the template to say: Usher tells each member where it belongs", c.Name, said)
		}
	}
	return nil
}

// overridden is the flag or the variable of a container that is not the template's; "": there is none.
func overridden(c *corev1.Container) string {
	for _, word := range flagWords(c) {
		if flag, is := flagOf(word); is && (slices.Contains(reservedFlags, flag) || strings.HasPrefix(flag, "discovery")) {
			return "--" + flag
		}
	}
	for _, v := range c.Env {
		if v.Name == "ETCD_CONFIG_FILE" || v.Name == "ETCD_FORCE_NEW_CLUSTER" || strings.HasPrefix(v.Name, "ETCD_DISCOVERY") {
			return v.Name
		}
	}
	for _, from := range c.EnvFrom { // what is in it is not known, and may change
		if strings.HasPrefix("ETCD_", from.Prefix) || strings.HasPrefix(from.Prefix, "ETCD_") {
			return fmt.Sprintf("envFrom with the prefix %q, by which it may get variables of etcd,", from.Prefix)
		}
	}
	return ""
}

// flagWords are the words of a container's command and arguments, those of scripts among them.
func flagWords(c *corev1.Container) []string {
	given := strings.Join(append(slices.Clone(c.Command), c.Args...), " ")
	return strings.Fields(strings.NewReplacer(`"`, " ", "'", " ", ";", " ", "\\", " ").Replace(given))
}

// flagOf is the name of a flag, which one or two dashes begin.
func flagOf(word string) (name string, is bool) {
	name, is = strings.CutPrefix(word, "-")
	name, _, _ = strings.Cut(strings.TrimPrefix(name, "-"), "=")
	return name, is && name != ""
}

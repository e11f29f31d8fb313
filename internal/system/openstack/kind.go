package openstack

import (
	"embed"
	"io/fs"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/expression"
	"usher.sh/usher/internal/system"
)

//go:embed roles/*.yaml
var roleFiles embed.FS

// Name is the field of spec.system.
const Name = "openstack"

// MoveServers is the step that empties a compute host.
const MoveServers = "MoveServers"

// Kind is OpenStack.
func Kind() system.Kind {
	roles, err := fs.Sub(roleFiles, "roles")
	if err != nil {
		roles = roleFiles // cannot be: the name is a valid path
	}
	return system.Kind{
		Name:     Name,
		Declared: func(spec *v1alpha1.System) bool { return spec.OpenStack != nil },
		Hosts:    true,
		Schema:   Schema,
		Steps: map[string]string{
			MoveServers: "disables the nova-compute service of a host and has its servers moved to other hosts, by their states, as many at once as the policy says; " +
				"undone, the service is enabled if Usher has disabled it, and what waits in Nova's queue is called off: what runs ends by itself, and what has moved stays",
		},
		Roles:       roles,
		References:  references,
		ReportFacts: []string{"up"},
		Reports: func(facts expression.Facts) (does, known bool) {
			does, known = facts["up"].(bool)
			return does, known
		},
		Open: Open,
	}
}

func references(spec *v1alpha1.System) system.References {
	refers := system.References{Secrets: []v1alpha1.SecretKey{spec.OpenStack.Clouds}}
	if ca := spec.OpenStack.CA; ca != nil {
		refers.Secrets = append(refers.Secrets, *ca)
	}
	return refers
}

// Schema declares what rules may look at.
var Schema = expression.Schema{
	System: []expression.Field{
		{Name: "region", Type: expression.String, Doc: "the region"},
		{Name: "microversion", Type: expression.String, Doc: "the microversion of Nova that is spoken"},
		{Name: "hosts", Type: expression.Int, Doc: "how many compute hosts the region has"},
		{Name: "hostsUp", Type: expression.Int, Doc: "how many of their services report to Nova"},
		{Name: "hostsOpen", Type: expression.Int, Doc: "how many of these are enabled, and so may get servers"},
	},
	Member: []expression.Field{
		{Name: "problem", Type: expression.String, Doc: "why nothing can be said of the host; empty: nothing is wrong"},
		{Name: "up", Type: expression.Bool, Doc: "its nova-compute service reports to Nova"},
		{Name: "disabled", Type: expression.Bool, Doc: "the service is disabled: it gets no servers"},
		{Name: "disabledReason", Type: expression.String, Doc: "why, in the words of who has disabled it"},
		{Name: "disabledByUsher", Type: expression.Bool, Doc: "Usher has, for this policy's namespace"},
		{Name: "others", Type: expression.Int, Doc: "how many other hosts may get servers"},
		{Name: "servers", Type: expression.Strings, Doc: "servers on it, as NAME (ID) STATE; while it is not disabled without their states"},
		{Name: "left", Type: expression.Int, Doc: "how many of them have to leave"},
		{Name: "stay", Type: expression.Strings, Doc: "those that may stay, by servers in the policy; this and what follows is known of disabled hosts only"},
		{Name: "moving", Type: expression.Strings, Doc: "servers that are leaving, whoever has asked for that"},
		{Name: "busy", Type: expression.Strings, Doc: "servers with which Nova is doing something else"},
		{Name: "stuck", Type: expression.Strings, Doc: "servers that are not moved as they are, with what a person can do"},
		{Name: "failed", Type: expression.Strings, Doc: "servers that could not be moved, why, and when that is tried again"},
		{Name: "incoming", Type: expression.Strings, Doc: "migrations that lead to it"},
		{Name: "unconfirmed", Type: expression.Strings, Doc: "servers that have left it and may come back, with what ends that"},
		{Name: "work", Type: expression.Int, Doc: "how many things are left that Usher asks Nova for, or has asked for"},
		{Name: "empty", Type: expression.Bool, Doc: "it is disabled, has no server that has to leave, and none is on its way from it or to it"},
	},
}

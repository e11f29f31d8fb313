package openstack

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"usher.sh/usher/internal/text"
)

// endpointOf finds where a service listens in a region, and the region's name where none was given.
func endpointOf(catalog *tokens.ServiceCatalog, service string, a *account) (address, found string, err error) {
	face, region := a.face, a.region
	urls := urlsOf(catalog, service)
	regions := slices.Sorted(maps.Keys(urls))
	switch {
	case len(regions) == 0:
		return "", "", fmt.Errorf("its catalog has no service of type %s: the account's project may not see it", service)
	case region == "" && len(regions) > 1:
		return "", "", fmt.Errorf("its catalog has the regions %s: say in %s.region which one is meant", named(regions), a.field)
	case region == "":
		region = regions[0]
	case urls[region] == nil:
		return "", "", fmt.Errorf("its catalog has no region %s, but %s: correct %s.region, or region_name in clouds.yaml", text.Name(region), named(regions), a.field)
	}
	if urls[region][face] == "" {
		return "", "", fmt.Errorf("service %s has no %s endpoint in region %s, but %s: correct interface in clouds.yaml",
			service, text.Name(face), text.Name(region), named(slices.Sorted(maps.Keys(urls[region]))))
	}
	return strings.TrimSuffix(urls[region][face], "/") + "/", region, nil
}

// urlsOf are a service's endpoints, by region and interface.
func urlsOf(catalog *tokens.ServiceCatalog, service string) map[string]map[string]string {
	all := map[string]map[string]string{}
	for _, entry := range catalog.Entries {
		if entry.Type != service {
			continue
		}
		for _, e := range entry.Endpoints {
			region := cmp.Or(e.RegionID, e.Region)
			if all[region] == nil {
				all[region] = map[string]string{}
			}
			all[region][e.Interface] = e.URL
		}
	}
	return all
}

// The microversions of Nova. From 2.80 on a migration says in whose name it was asked for; at 2.88 and above a list of hypervisors asks each host,
// and so takes as long as the slowest.
const (
	leastMinor = 80
	mostMinor  = 87
)

// versioned is the part of an endpoint of Nova up to its version: what follows is a project.
var versioned = regexp.MustCompile(`^(.*/v2(?:\.1)?)(?:/.*)?$`)

// versionURL is where Nova says which microversions it speaks.
func versionURL(endpoint string) string {
	if found := versioned.FindStringSubmatch(endpoint); found != nil {
		return found[1] + "/"
	}
	return endpoint
}

// negotiate returns the newest microversion that both speak.
func negotiate(least, most string) (string, error) {
	if most == "" {
		return "", errors.New("its endpoint in the catalog has no microversions: name one that ends in /v2.1 there")
	}
	low, okLow := minor(least)
	high, okHigh := minor(most)
	switch {
	case !okLow || !okHigh:
		return "", errors.New("what it says of its microversions cannot be understood")
	case high < leastMinor || low > mostMinor:
		return "", fmt.Errorf("it speaks the microversions %s to %s, and Usher 2.%d to 2.%d: OpenStack Ussuri is the first release that has one of them",
			text.Name(least), text.Name(most), leastMinor, mostMinor)
	}
	return "2." + strconv.Itoa(min(high, mostMinor)), nil
}

func minor(version string) (int, bool) {
	major, rest, found := strings.Cut(version, ".")
	n, err := strconv.Atoi(rest)
	return n, found && err == nil && major == "2"
}

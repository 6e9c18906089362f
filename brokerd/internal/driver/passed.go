package driver

import (
	"boxmaker/internal/proto"
)

// What a record holds of a report: with every character escaped it still fits
// into a line of the log and into a message, whatever egressd sends.
const (
	maxPassed = 256 // connections; egressd lists no more either
	maxHost   = 512 // bytes of a host, which a tool may have made up
	maxDetail = 4 << 10
)

// passed is what goes on record of a way out. What is not listed is counted.
func (d *Driver) passed(r proto.EgressReport) (list []proto.EgressConn, more int64) {
	more = r.More
	if n := len(r.Connections); n > maxPassed {
		more = sum(more, int64(n-maxPassed))
		r.Connections = r.Connections[:maxPassed]
	}
	for _, c := range r.Connections { // a tool may have asked for a host with a secret as its name
		c.Host = clip(d.cfg.Secrets.Clean(valid(c.Host)), maxHost) // in this order: a part of a secret is not found
		c.Address = clip(valid(c.Address), maxHost)
		list = append(list, c)
	}
	return list, more
}

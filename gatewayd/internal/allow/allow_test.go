package allow

import (
	"testing"

	"boxmaker/gatewayd/internal/mattermost"

	"pgregory.net/rapid"
)

const (
	owner    = "ownerrrrrrrrrrrrrrrrrrrrrr"
	stranger = "strangerrrrrrrrrrrrrrrrrrr"
	bot      = "bottttttttttttttttttttttttt"
	direct   = "directtttttttttttttttttttt"
	listed   = "listedddddddddddddddddddddd"
	post     = "posttttttttttttttttttttttt"
)

func id(s string) string { return s[:26] }

func rules() Rules { return Rules{Owners: []string{id(owner)}, Channels: []string{id(listed)}} }

func me() Bot { return Bot{ID: id(bot), Name: "box.maker"} }

func inDirect() (mattermost.Post, mattermost.Channel) {
	return mattermost.Post{ID: id(post), User: id(owner), Channel: id(direct), Message: "hello", CreateAt: 5},
		mattermost.Channel{ID: id(direct), Type: mattermost.Direct, Name: id(bot) + "__" + id(owner)}
}

func inListed() (mattermost.Post, mattermost.Channel) {
	return mattermost.Post{ID: id(post), User: id(owner), Channel: id(listed), Message: "@box.maker hello", CreateAt: 5},
		mattermost.Channel{ID: id(listed), Type: mattermost.Private, Name: "listed"}
}

func TestDecide(t *testing.T) {
	type postAndChannel func() (mattermost.Post, mattermost.Channel)
	for _, c := range []struct {
		name   string
		from   postAndChannel
		change func(*mattermost.Post, *mattermost.Channel)
		want   Verdict
	}{
		{"the owner, directly", inDirect, nil, Hear},
		{"the owner, the other way round", inDirect, func(_ *mattermost.Post, c *mattermost.Channel) { c.Name = id(owner) + "__" + id(bot) }, Hear},
		{"the owner, in a thread", inDirect, func(p *mattermost.Post, _ *mattermost.Channel) { p.Root = id(stranger) }, Hear},
		{"the owner, by name in a listed channel", inListed, nil, Hear},
		{"a public one", inListed, func(_ *mattermost.Post, c *mattermost.Channel) { c.Type = mattermost.Public }, Hear},
		{"a stranger", inDirect, func(p *mattermost.Post, _ *mattermost.Channel) { p.User = id(stranger) }, Other},
		{"a stranger's own direct channel", inDirect, func(p *mattermost.Post, c *mattermost.Channel) {
			p.User, c.Name = id(stranger), id(bot)+"__"+id(stranger)
		}, Other},
		{"nobody", inDirect, func(p *mattermost.Post, _ *mattermost.Channel) { p.User = "" }, Other},
		{"a stranger in a listed channel", inListed, func(p *mattermost.Post, _ *mattermost.Channel) { p.User = id(stranger) }, Other},
		{"the owner as administrator in a stranger's direct channel", inDirect, func(_ *mattermost.Post, c *mattermost.Channel) { c.Name = id(bot) + "__" + id(stranger) }, Place},
		{"a group", inDirect, func(_ *mattermost.Post, c *mattermost.Channel) { c.Type = mattermost.Group }, Place},
		{"a group that is listed", inListed, func(_ *mattermost.Post, c *mattermost.Channel) { c.Type = mattermost.Group }, Place},
		{"an unknown type of channel", inListed, func(_ *mattermost.Post, c *mattermost.Channel) { c.Type = "" }, Place},
		{"a channel that is not listed", inListed, func(p *mattermost.Post, c *mattermost.Channel) { p.Channel, c.ID = id(direct), id(direct) }, Place},
		{"the bot is not named", inListed, func(p *mattermost.Post, _ *mattermost.Channel) { p.Message = "hello" }, Unnamed},
		{"own", inDirect, func(p *mattermost.Post, _ *mattermost.Channel) { p.User = id(bot) }, Own},
		{"webhook under the owner's id", inDirect, func(p *mattermost.Post, _ *mattermost.Channel) { p.Props.FromWebhook = true }, Program},
		{"a bot under the owner's id", inDirect, func(p *mattermost.Post, _ *mattermost.Channel) { p.Props.FromBot = true }, Program},
		{"a plug-in", inDirect, func(p *mattermost.Post, _ *mattermost.Channel) { p.Props.FromPlugin = true }, Program},
		{"another program", inDirect, func(p *mattermost.Post, _ *mattermost.Channel) { p.Props.FromOAuth = true }, Program},
		{"another name", inDirect, func(p *mattermost.Post, _ *mattermost.Channel) { p.Props.Override = true }, Program},
		{"a card", inDirect, func(p *mattermost.Post, _ *mattermost.Channel) { p.Props.Attachments = true }, Program},
		{"system", inDirect, func(p *mattermost.Post, _ *mattermost.Channel) { p.Type = "system_header_change" }, System},
		{"custom", inDirect, func(p *mattermost.Post, _ *mattermost.Channel) { p.Type = "custom_x" }, System},
		{"edited before it was read", inDirect, func(p *mattermost.Post, _ *mattermost.Channel) { p.EditAt = 6 }, Edited},
		{"pinned", inDirect, func(p *mattermost.Post, _ *mattermost.Channel) { p.UpdateAt = 6 }, Hear},
		{"deleted", inDirect, func(p *mattermost.Post, _ *mattermost.Channel) { p.DeleteAt = 6 }, Gone},
		{"a ghost", inDirect, func(p *mattermost.Post, _ *mattermost.Channel) { p.Original, p.DeleteAt = id(listed), 6 }, Gone},
		{"half a ghost", inDirect, func(p *mattermost.Post, _ *mattermost.Channel) { p.Original = id(listed) }, Gone},
		{"without an id", inDirect, func(p *mattermost.Post, _ *mattermost.Channel) { p.ID = "" }, Broken},
		{"an id that leads out", inDirect, func(p *mattermost.Post, _ *mattermost.Channel) { p.Root = "../../../../../../../etc/x" }, Broken},
		{"of another channel", inDirect, func(p *mattermost.Post, _ *mattermost.Channel) { p.Channel = id(listed) }, Broken},
		{"without a time", inDirect, func(p *mattermost.Post, _ *mattermost.Channel) { p.CreateAt = 0 }, Broken},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, ch := c.from()
			if c.change != nil {
				c.change(&p, &ch)
			}
			if got := Decide(rules(), me(), p, ch); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// TestCaseP38: the bot's own posts and other bots' are never heard, whatever they say.
func TestCaseP38(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, ch := inDirect()
		if rapid.Bool().Draw(t, "listed") {
			p, ch = inListed()
		}
		p.Message = rapid.SampledFrom([]string{"@box.maker go", "stop", ""}).Draw(t, "text")
		p.User = rapid.SampledFrom([]string{id(bot), id(stranger), id(owner)}).Draw(t, "user")
		p.Props.FromBot = p.User == id(owner) || rapid.Bool().Draw(t, "marked")
		if v := Decide(rules(), me(), p, ch); v == Hear || v == Edited {
			t.Errorf("%+v is heard", p)
		}
	})
}

func TestNames(t *testing.T) {
	for _, c := range []struct {
		text string
		want bool
		rest string
	}{
		{"@box.maker hello", true, "hello"},
		{"@Box.Maker: hello", true, "hello"},
		{"hello @box.maker.", true, "hello @box.maker."},
		{"(@box.maker)", true, "(@box.maker)"},
		{"box.maker hello", false, "box.maker hello"},
		{"@box.maker2 hello", false, "@box.maker2 hello"},
		{"@box.maker.org", false, "@box.maker.org"},
		{"x@box.maker", false, "x@box.maker"},
		{"`@box.maker`", false, "`@box.maker`"},
		{"```\n@box.maker\n```", false, "```\n@box.maker\n```"},
		{"it's ` @box.maker", true, "it's ` @box.maker"},
		{"@box.maker", true, ""},
		{"@box.maker @box.maker stop", true, "stop"},
	} {
		if got, rest := Names(c.text, "box.maker"), Strip(c.text, "box.maker"); got != c.want || rest != c.rest {
			t.Errorf("%q: %v, %q", c.text, got, rest)
		}
	}
}
